package worlds

import (
	"context"
	"time"

	"github.com/slinky-hpc/slinky/internal/plan/view"
)

// Reader reads sources again and again, for who watches; one reading at a time.
type Reader struct {
	Sources
	// sought is when Slurm was last looked for.
	sought time.Time
}

// NewReader returns a Reader of sources that were found just now.
func NewReader(s Sources) *Reader { return &Reader{Sources: s, sought: time.Now()} }

// Read reads the sources once. Where no Slurm is known it is looked for first, now and then:
// the bridge, its Secret or the API server may have come since.
func (r *Reader) Read(ctx context.Context, w Want) view.Facts {
	if r.Slurm == nil && r.again != nil && time.Since(r.sought) >= lookAgain {
		bounded, cancel := context.WithTimeout(ctx, patience)
		found, err := r.again(bounded)
		cancel()
		if r.sought = time.Now(); err == nil {
			found.Namespace = r.Namespace
			r.Sources = found
		}
	}
	return r.Sources.Read(ctx, w)
}
