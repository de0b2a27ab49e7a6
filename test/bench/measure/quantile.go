package measure

import (
	"fmt"
	"slices"
	"time"
)

// Quantiles sums some durations up, in seconds.
type Quantiles struct {
	N                        int
	P50, P90, P99, Max, Mean float64
}

// QuantilesOf returns the quantiles of durations: each is one that was measured,
// the smallest that the given share doesn't exceed.
func QuantilesOf(d []time.Duration) Quantiles {
	if len(d) == 0 {
		return Quantiles{}
	}
	d = slices.Sorted(slices.Values(d))
	at := func(percent int) float64 {
		return d[max(0, (percent*len(d)+99)/100-1)].Seconds()
	}
	var sum time.Duration
	for _, x := range d {
		sum += x
	}
	return Quantiles{len(d), at(50), at(90), at(99), d[len(d)-1].Seconds(), (sum / time.Duration(len(d))).Seconds()}
}

func (q Quantiles) String() string {
	return fmt.Sprintf("p50 %.3f p90 %.3f p99 %.3f max %.3f mean %.3f s (n=%d)", q.P50, q.P90, q.P99, q.Max, q.Mean, q.N)
}
