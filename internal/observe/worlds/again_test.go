package worlds

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
)

// quiet is a Slurm without jobs and nodes.
type quiet struct{}

func (quiet) Jobs(context.Context) ([]slurm.Job, error)             { return nil, nil }
func (quiet) Nodes(context.Context) ([]slurm.Node, error)           { return nil, nil }
func (quiet) Partitions(context.Context) ([]slurm.Partition, error) { return nil, nil }
func (quiet) Ping(context.Context) ([]slurm.Ping, error)            { return nil, nil }
func (quiet) QOSes(context.Context) ([]slurm.QOS, error)            { return nil, nil }
func (quiet) Allocation(context.Context, uint32) (slurm.Allocation, error) {
	return slurm.Allocation{}, nil
}
func (quiet) Associations(context.Context, slurm.AssociationFilter) ([]slurm.Association, error) {
	return nil, nil
}

// A Slurm that comes while somebody watches is found, and looking for it is no load.
func TestReaderFindsSlurmThatComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sought, there := 0, false
		s := Sources{Namespace: "ml"}
		s.again = func(context.Context) (Sources, error) {
			sought++
			if !there {
				return Sources{}, errors.New("nobody answers")
			}
			return Sources{Slurm: quiet{}, SlurmURL: "http://slurm"}, nil
		}
		r := NewReader(s)
		for range 60 { // two minutes
			if r.Read(t.Context(), Want{}).Slurm.Known {
				t.Fatal("a Slurm that isn't there is known")
			}
			<-time.After(2 * time.Second)
		}
		if want := int(2 * time.Minute / lookAgain); sought == 0 || sought > want {
			t.Errorf("it was looked for %d times, at most %d are due", sought, want)
		}
		there = true
		<-time.After(lookAgain)
		if f := r.Read(t.Context(), Want{}); !f.Slurm.Known || r.Namespace != "ml" {
			t.Errorf("the Slurm that came is known: %v, namespace %q", f.Slurm.Known, r.Namespace)
		}
		before := sought
		<-time.After(time.Minute)
		if r.Read(t.Context(), Want{}); sought != before {
			t.Error("a Slurm that is known is looked for")
		}
	})
}
