package bench

import (
	"fmt"
	"strings"
	"time"
)

// row is one line of the table.
type row struct {
	what, measured, limit, reach string
	// met tells whether the reach was met; it never decides a test.
	met bool
}

// table is what the run measured.
type table struct {
	rows []row
	// stock and bare are pods and jobs per second alone on the machine, by how many at once.
	stock, bare map[int]float64
	// stockOne and bareOne are the latencies of a single one in seconds.
	stockOne, bareOne float64
	// registered is how many nodes per second a bare loop registers.
	registered float64
	idleOne    float64
}

func (t *table) add(r row) { t.rows = append(t.rows, r) }

// combined is what two that need the same processors can reach one after the other.
func combined(a, b float64) float64 {
	if a <= 0 || b <= 0 {
		return 0
	}
	return 1 / (1/a + 1/b)
}

func (t *table) String() string {
	var b strings.Builder
	b.WriteString("| what | measured | limit in the same run | reach | met |\n|---|---|---|---|---|\n")
	for _, r := range t.rows {
		met := "no"
		if r.met {
			met = "yes"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", r.what, r.measured, r.limit, r.reach, met)
	}
	return b.String()
}

// seconds writes a time with a unit that suits it.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	default:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

// ofLimit is the share of a limit that this run has measured, or not when its part was left out.
func ofLimit(rate, limit float64) string {
	if limit <= 0 {
		return "limit not measured"
	}
	return percent(rate/limit) + " of the limit"
}
