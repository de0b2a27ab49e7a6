package worlds

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slinky-hpc/slinky/internal/plan/view"
	"github.com/slinky-hpc/slinky/slurm"
)

// partly is a Slurm of which a part may give no answer. All other calls panic.
type partly struct {
	slurm.Client
	partitions, pings error
}

func (*partly) Jobs(context.Context) ([]slurm.Job, error)           { return nil, nil }
func (*partly) JobStates(context.Context) ([]slurm.JobState, error) { return nil, nil }
func (*partly) Nodes(context.Context) ([]slurm.Node, error)         { return []slurm.Node{{Name: "n1"}}, nil }
func (*partly) QOSes(context.Context) ([]slurm.QOS, error)          { return nil, nil }
func (*partly) Associations(context.Context, slurm.AssociationFilter) ([]slurm.Association, error) {
	return nil, nil
}
func (p *partly) Partitions(context.Context) ([]slurm.Partition, error) {
	return []slurm.Partition{{Name: "batch"}}, p.partitions
}
func (p *partly) Ping(context.Context) ([]slurm.Ping, error) {
	return []slurm.Ping{{Hostname: "ctl", Responding: true}}, p.pings
}

// Partitions and the answers of slurmctld are as old as their own last answer, whatever else Slurm says: they are
// shown for half a minute without a new one, then it is said since when, and they come back at the next.
func TestPartsOfSlurmGrowOldAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &partly{}
		l := NewLive(Sources{Slurm: s, SlurmURL: "http://slurm"})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); l.Run(ctx) }()
		defer func() { stop(); <-done }()
		look := func(after time.Duration) view.Slurm {
			<-time.After(after)
			synctest.Wait()
			return l.Facts().Slurm
		}
		lacks := func(when string, f view.Slurm, want ...string) {
			t.Helper()
			var got []string
			for _, p := range f.Missing {
				got = append(got, p.What)
			}
			if !f.Known || len(f.Nodes) != 1 {
				t.Errorf("%s: nodes aren't shown: %+v", when, f.Source)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: missing are %v, want %v", when, got, want)
			}
			if partitions := len(f.Partitions) == 1; partitions == slices.Contains(want, view.PartPartitions) {
				t.Errorf("%s: the partitions are %v", when, f.Partitions)
			}
			if pings := len(f.Controllers) == 1; pings == slices.Contains(want, view.PartPings) {
				t.Errorf("%s: the answers of slurmctld are %v", when, f.Controllers)
			}
		}
		lacks("all is read", look(20*time.Second))
		s.partitions = errors.New("refused")
		broke := time.Now()
		lacks("a moment later", look(20*time.Second))
		f := look(20 * time.Second)
		lacks("partitions are old", f, view.PartPartitions)
		if p := f.Missing[0]; p.Error != "refused" || p.Read.After(broke) || broke.Sub(p.Read) > pulse {
			t.Errorf("of the partitions is said %+v, broken since %v", p, broke)
		}
		s.pings = errors.New("no route")
		lacks("both are old", look(40*time.Second), view.PartPartitions, view.PartPings)
		s.partitions, s.pings = nil, nil
		lacks("both are back", look(2*pulse))
	})
}
