package operator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
)

var errRefused = errors.New("refused")

// calls counts what was done for each thing, and how much of it at once.
type calls struct {
	mu           sync.Mutex
	done         map[int]int
	now, highest int
}

func (c *calls) do(bad func(i int) bool) func(i int) error {
	c.done = map[int]int{}
	return func(i int) error {
		c.mu.Lock()
		c.done[i]++
		c.now++
		c.highest = max(c.highest, c.now)
		c.mu.Unlock()
		defer func() {
			c.mu.Lock()
			c.now--
			c.mu.Unlock()
		}()
		if bad(i) {
			return fmt.Errorf("%d: %w", i, errRefused)
		}
		return nil
	}
}

func TestSlowly(t *testing.T) {
	const n = 300
	cases := map[string]struct {
		bad          func(i int) bool
		done, errors int
	}{
		"all go well":              {bad: func(int) bool { return false }, done: n},
		"a bad one keeps no other": {bad: func(i int) bool { return i == 0 }, done: n, errors: 1},
		"some bad ones don't":      {bad: func(i int) bool { return i%3 == 1 }, done: n, errors: n / 3},
		"what fails for all":       {bad: func(int) bool { return true }, done: hopeless, errors: hopeless},
		"from some time on":        {bad: func(i int) bool { return i >= 31 }, done: 31 + hopeless*widest, errors: hopeless * widest},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var c calls
			errs := slowly(t.Context(), n, c.do(tc.bad))
			if len(c.done) != tc.done || len(errs) != tc.errors || c.highest > widest {
				t.Errorf("%d done, %d errors, %d at once; want %d, %d, at most %d", len(c.done), len(errs), c.highest, tc.done, tc.errors, widest)
			}
			for i, times := range c.done {
				if times != 1 {
					t.Errorf("%d was done %d times", i, times)
				}
			}
			for _, err := range errs {
				if !errors.Is(err, errRefused) {
					t.Errorf("error %v", err)
				}
			}
		})
	}
}

func TestAtOnceDoesAllWhateverFails(t *testing.T) {
	var c calls
	errs := atOnce(t.Context(), 100, c.do(func(int) bool { return true }))
	if len(c.done) != 100 || len(errs) != 100 || c.highest > widest {
		t.Errorf("%d done, %d errors, %d at once", len(c.done), len(errs), c.highest)
	}
}

func TestBatchesEndWithTheirContext(t *testing.T) {
	for name, batch := range map[string]func(context.Context, int, func(int) error) []error{"slowly": slowly, "atOnce": atOnce} {
		ctx, cancel := context.WithCancel(t.Context())
		var c calls
		do := c.do(func(int) bool { return false })
		batch(ctx, 500, func(i int) error {
			if i == 0 {
				cancel()
			}
			<-ctx.Done()
			return do(i)
		})
		if len(c.done) == 0 || len(c.done) > widest {
			t.Errorf("%s: %d done after the end, want no more than one batch", name, len(c.done))
		}
	}
}
