package faultserver_test

import (
	"errors"
	"testing"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/rest"
	"github.com/slinky-hpc/slinky/slurm/slurmtest/faultserver"
)

// A test of what happens when the answer to a submission is lost.
func ExampleServer() {
	_ = func(t *testing.T) {
		s := faultserver.New(t, faultserver.Options{})
		s.Change(func(m *faultserver.Model) {
			m.AddNode("x1")
			m.AddJob(time.Now(), "first", slurm.JobRunning, "x1")
		})
		client, err := rest.New(rest.Config{URL: "http://slurmrestd", Dial: s.Dial, Tokens: rest.StaticToken("t")})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()

		s.Fail(faultserver.Submit, faultserver.Lost)
		_, err = client.Submit(t.Context(), slurm.JobRequest{Name: "second", Partition: "ext", External: true})
		if !errors.Is(err, slurm.ErrUnavailable) {
			t.Error("nobody knows whether the job was submitted, and the client doesn't say so")
		}
		if jobs, err := client.Jobs(t.Context()); err != nil || len(jobs) != 2 {
			t.Errorf("the job was submitted, and is not seen: %v, %v", jobs, err)
		}
		if n := faultserver.Count(s.Requests(), faultserver.Submit); n != 1 {
			t.Errorf("the job was submitted %d times", n)
		}
	}
}
