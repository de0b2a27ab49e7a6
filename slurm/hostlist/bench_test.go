package hostlist

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"
)

func manyNames() []string {
	names := make([]string, 100_000)
	for i := range names {
		names[i] = fmt.Sprintf("node%05d", i)
	}
	return names
}

const racks = "rack[1-100]node[001-500]gpu[0-1]"

// measure runs f and tells, beside the time on the clock, that on the processors:
// the number to look at on a machine that others use as well.
func measure(b *testing.B, f func()) {
	b.Helper()
	start := processorTime(b)
	for b.Loop() {
		f()
	}
	b.ReportMetric(float64(processorTime(b)-start)/float64(b.N), "cpu-ns/op")
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func benchmarkExpand(b *testing.B, expr string) {
	b.ReportAllocs()
	measure(b, func() {
		if names, err := Expand(expr); err != nil || len(names) != 100_000 {
			b.Fatal(len(names), err)
		}
	})
}

func benchmarkCompress(b *testing.B, names []string) {
	b.ReportAllocs()
	measure(b, func() {
		if Compress(names) == "" {
			b.Fatal("nothing")
		}
	})
}

func BenchmarkExpand100k(b *testing.B)      { benchmarkExpand(b, "node[00000-99999]") }
func BenchmarkExpandRacks100k(b *testing.B) { benchmarkExpand(b, racks) }

func BenchmarkCompress100k(b *testing.B) { benchmarkCompress(b, manyNames()) }

func BenchmarkCompressShuffled100k(b *testing.B) {
	names := manyNames()
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	benchmarkCompress(b, names)
}

func BenchmarkCompressRacks100k(b *testing.B) {
	names, err := Expand(racks)
	if err != nil {
		b.Fatal(err)
	}
	benchmarkCompress(b, names)
}

func BenchmarkJoin100k(b *testing.B) {
	names := manyNames()
	b.ReportAllocs()
	measure(b, func() { Join(names) })
}
