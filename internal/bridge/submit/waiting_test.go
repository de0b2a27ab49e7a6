package submit

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWorthTelling(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var all []news
	for i := range 10 {
		// The last in the queue was told the longest ago.
		all = append(all, news{text: fmt.Sprint(i), place: i + 1, reason: "Priority", last: told{word: "Priority", at: start.Add(-time.Duration(i) * time.Minute)}})
	}
	all[6].last.word = "Resources"
	names := func(list []news) (out []string) {
		for _, n := range list {
			out = append(out, n.text)
		}
		return out
	}
	if d := cmp.Diff([]string{"6", "0", "1", "9", "8"}, names(worthTelling(all, 5))); d != "" {
		t.Error(d)
	}
	if got := worthTelling(all, 20); len(got) != 10 {
		t.Errorf("%d of 10 are told", len(got))
	}
}
