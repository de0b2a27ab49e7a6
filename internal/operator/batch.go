package operator

import (
	"context"
	"sync"
)

const (
	// widest is how many calls are under way at once.
	widest = 32
	// hopeless is after how many failures in a row, as many times what is under way at once,
	// the rest is left for later.
	hopeless = 3
)

// slowly calls do for each of n things, more and more at once while all goes well, so that what
// fails for all of them doesn't fail n times. What fails for one keeps none of the others waiting.
func slowly(ctx context.Context, n int, do func(i int) error) []error {
	var errs []error
	failed := 0
	begin, size := 0, 1
	for begin < n && size < widest && failed < hopeless && ctx.Err() == nil {
		end := min(n, begin+size)
		bad := together(ctx, begin, end, end-begin, do)
		errs = append(errs, bad...)
		switch {
		case len(bad) == end-begin:
			failed++
		default:
			failed = 0
			size *= 2
		}
		begin = end
	}
	if failed == hopeless {
		return errs
	}
	return append(errs, together(ctx, begin, n, hopeless*widest, do)...)
}

// atOnce calls do for each of n things, some at a time.
func atOnce(ctx context.Context, n int, do func(i int) error) []error {
	return together(ctx, 0, n, n, do)
}

// together calls do for begin to end-1, always as many at once as may be, until that many in a
// row have failed.
func together(ctx context.Context, begin, end, enough int, do func(i int) error) []error {
	var (
		mu      sync.Mutex
		callers sync.WaitGroup
		errs    []error
		// failed are in a row, underway may fail, too.
		failed, underway int
	)
	next := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		if begin >= end || failed+underway >= enough || ctx.Err() != nil {
			return 0, false
		}
		begin++
		underway++
		return begin - 1, true
	}
	done := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		underway--
		if err == nil {
			failed = 0
			return
		}
		failed++
		errs = append(errs, err)
	}
	for range min(end-begin, widest) {
		callers.Go(func() {
			for i, more := next(); more; i, more = next() {
				done(do(i))
			}
		})
	}
	callers.Wait()
	return errs
}
