package box

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/slinky-hpc/slinky/internal/box/cache"
)

// pruneAfter is how long what the cache holds is kept since it was used, however much has replaced it.
const pruneAfter = time.Hour

// prune removes what later builds have replaced. That it can't be is no reason not to go on with what was built.
func (b *Box) prune(ctx context.Context, kind string, keep int) {
	if err := b.tryPrune(ctx, kind, keep); err != nil && ctx.Err() == nil {
		b.Report.Say("What was built before stays in the cache: %v", err)
	}
}

// tryPrune keeps the last of each name, as many as keep says, and what a container of any box has.
func (b *Box) tryPrune(ctx context.Context, kind string, keep int) error {
	bound, err := b.bound()
	if err != nil {
		return fmt.Errorf("look for what boxes use of the cache: %w", err)
	}
	return b.Cache.Prune(ctx, kind, cache.Rule{
		Keep: keep, Since: time.Now().Add(-pruneAfter), Used: func(path string) bool { return bound[path] },
	})
}

// bound are the files and folders of this machine that the containers of all boxes have.
func (b *Box) bound() (map[string]bool, error) {
	files, err := filepath.Glob(filepath.Join(b.Root, "boxes", "*", "containers", "*", "config.json"))
	if err != nil {
		return nil, err
	}
	bound := map[string]bool{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // another command removes its box
		}
		if err != nil {
			return nil, err
		}
		var spec specs.Spec
		if err := json.Unmarshal(data, &spec); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		for _, m := range spec.Mounts {
			bound[m.Source] = true
		}
	}
	return bound, nil
}
