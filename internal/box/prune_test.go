package box

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slinky-hpc/slinky/internal/box/cache"
)

// TestPruneLeavesWhatBoxesHave: the program that the containers of any box run stays, however many have replaced it.
func TestPruneLeavesWhatBoxesHave(t *testing.T) {
	root := t.TempDir()
	program := func(i int) string { return filepath.Join(root, "program", fmt.Sprintf("slinky-%d", i)) }
	for i := range 5 {
		// As a process leaves it that has ended.
		made := time.Now().AddDate(0, 0, i-30)
		for _, file := range []string{program(i), filepath.Join(root, "program", fmt.Sprintf(".slinky-%d.lock", i))} {
			if err := errors.Join(replaceFile(file, nil, 0o755), os.Chtimes(file, made, made)); err != nil {
				t.Fatal(err)
			}
		}
	}
	other := &Box{Name: "other", Root: root, Self: program(1)}
	c := container{name: nodeName(1), isolated: true, readonly: map[string]string{"/program": program(2)}}
	spec, err := other.spec(c)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	config := other.containerDir(c.name, "config.json")
	if err := replaceFile(config, data, 0o600); err != nil {
		t.Fatal(err)
	}
	b := &Box{Name: "own", Root: root, Cache: cache.New(root, nil)}
	for _, want := range []string{"slinky-1 slinky-2 slinky-4", "slinky-4"} {
		if err := b.tryPrune(t.Context(), "program", 1); err != nil {
			t.Fatal(err)
		}
		left, err := filepath.Glob(filepath.Join(root, "program", "slinky-*"))
		if err != nil {
			t.Fatal(err)
		}
		for i := range left {
			left[i] = filepath.Base(left[i])
		}
		if got := strings.Join(left, " "); got != want {
			t.Errorf("there are %q, want %q", got, want)
		}
		// And then that box goes.
		if err := os.RemoveAll(other.dir()); err != nil {
			t.Fatal(err)
		}
	}

	if err := replaceFile(config, []byte("{half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := b.tryPrune(t.Context(), "program", 0); err == nil || !strings.Contains(err.Error(), config) {
		t.Errorf("what a box has isn't known, and pruning says %v", err)
	}
	if !exists(program(4)) {
		t.Error("a program is gone while it isn't known what a box has")
	}
}
