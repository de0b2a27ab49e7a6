package cache

import (
	"errors"
	"sync"
	"sync/atomic"
)

// each calls do for 0 to n-1, some at once, and returns all errors as one. It
// goes on after an error: one object that can't be read must not hide the others.
func (c *Cache) each(n int, do func(int) error) error {
	var next atomic.Int64
	var mu sync.Mutex
	var errs []error
	var workers sync.WaitGroup
	for range min(n, c.options.Concurrency) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	workers.Wait()
	if len(errs) > 3 {
		errs = append(errs[:3], errors.New("and more"))
	}
	return errors.Join(errs...)
}
