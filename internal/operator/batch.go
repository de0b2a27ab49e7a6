package operator

import (
	"context"
	"sync"
)

const (
	// widest is how many calls of a batch are under way at once.
	widest = 32
	// hopeless is after how many batches without a success the rest is left for later.
	hopeless = 3
)

// slowly calls do for each of n things, in batches that grow while all goes well, so that what
// fails for all of them doesn't fail n times. What fails for one keeps none of the others waiting.
func slowly(ctx context.Context, n int, do func(i int) error) []error {
	var errs []error
	failed := 0
	for begin, size := 0, 1; begin < n && failed < hopeless && ctx.Err() == nil; {
		end := min(n, begin+size)
		bad := together(begin, end, do)
		errs = append(errs, bad...)
		switch {
		case len(bad) == end-begin:
			failed++
		default:
			failed = 0
			size = min(2*size, widest)
		}
		begin = end
	}
	return errs
}

// together calls do for begin to end-1 at once.
func together(begin, end int, do func(i int) error) []error {
	results := make([]error, end-begin)
	var wg sync.WaitGroup
	for i := begin; i < end; i++ {
		wg.Go(func() { results[i-begin] = do(i) })
	}
	wg.Wait()
	var errs []error
	for _, err := range results {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// atOnce calls do for each of n things, some at a time.
func atOnce(ctx context.Context, n int, do func(i int) error) []error {
	var errs []error
	for begin := 0; begin < n && ctx.Err() == nil; begin += widest {
		errs = append(errs, together(begin, min(n, begin+widest), do)...)
	}
	return errs
}
