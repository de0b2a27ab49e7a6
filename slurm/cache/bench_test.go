package cache

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/rest"
)

const manyJobs, someJobs = 100_000, 100

// premade is a slurmrestd with many jobs, whose answers are made beforehand from
// recorded ones: in each of two phases, others of some external jobs run.
type premade struct {
	lists     [2][]byte
	job       [2][]byte // of state PENDING and RUNNING
	resources []byte
	phase     int // changed between polls only
}

func recorded(b *testing.B, name string) []byte {
	b.Helper()
	text, err := os.ReadFile("../rest/testdata/v0.0.45/" + name)
	if err != nil {
		b.Fatal(err)
	}
	i := bytes.IndexByte(text, '{')
	return text[max(i, 0):]
}

// runs tells whether a job runs in a phase: half of those that change do, in turn.
func runs(id uint32, phase int) bool {
	return id%(manyJobs/someJobs) == 0 && int(id/(manyJobs/someJobs))%2 == phase
}

func newPremade(b *testing.B) *premade {
	p := &premade{resources: recorded(b, "resources.http")}
	job := recorded(b, "job.http")
	job = regexp.MustCompile(`"job_id":\d+,`).ReplaceAll(job, []byte(`"job_id":@ID@,`))
	job = regexp.MustCompile(`"sluid":"\w+"`).ReplaceAll(job, []byte(`"sluid":"s8C1M8M@ID@"`))
	p.job[1] = job
	p.job[0] = bytes.ReplaceAll(job, []byte(`"job_state":["RUNNING"]`), []byte(`"job_state":["PENDING"]`))
	p.job[0] = bytes.ReplaceAll(p.job[0], []byte(`"nodes":"x1"`), []byte(`"nodes":""`))
	if bytes.Count(job, []byte("@ID@")) != 2 || bytes.Equal(p.job[0], p.job[1]) {
		b.Fatal("the recorded job looks otherwise than expected")
	}
	for phase := range p.lists {
		list := []byte(`{"jobs":[`)
		for id := uint32(1); id <= manyJobs; id++ {
			if id > 1 {
				list = append(list, ',')
			}
			state := slurm.JobPending
			if runs(id, phase) {
				state = slurm.JobRunning
			}
			list = fmt.Appendf(list, `{"job_id":"%d","state":["%s"]}`, id, state)
		}
		p.lists[phase] = append(list, `],"errors":[],"warnings":[]}`...)
	}
	return p
}

func (p *premade) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, what, _ := strings.Cut(r.URL.Path, "/v0.0.45/")
	switch {
	case what == "jobs/state/":
		w.Header().Set("Content-Length", strconv.Itoa(len(p.lists[p.phase]))) // as slurmrestd does
		w.Write(p.lists[p.phase])
	case strings.HasPrefix(what, "job/"):
		id, err := strconv.ParseUint(strings.TrimPrefix(what, "job/"), 10, 32)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body := p.job[0]
		if runs(uint32(id), p.phase) {
			body = p.job[1]
		}
		w.Write(bytes.ReplaceAll(body, []byte("@ID@"), strconv.AppendUint(nil, id, 10)))
	case strings.HasPrefix(what, "resources/"):
		w.Write(p.resources)
	default:
		w.Write([]byte(`{"pings":[],"errors":[]}`))
	}
}

// ownTexts gives each text of a record memory of its own, as reading it from an answer does.
func ownTexts(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(strings.Clone(v.String()))
	case reflect.Slice:
		own := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(own, v)
		v.Set(own)
		for i := range v.Len() {
			ownTexts(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				ownTexts(v.Field(i))
			}
		}
	}
}

// fill is a client that gives what premade has, without the time that HTTP takes.
type fill struct {
	slurm.Client
	*premade
	records [2]slurm.Job
}

func (f *fill) JobRecords(_ context.Context, id uint32) ([]slurm.Job, error) {
	j := f.records[0]
	if runs(id, f.phase) {
		j = f.records[1]
	}
	ownTexts(reflect.ValueOf(&j).Elem())
	j.ID, j.SLUID = id, fmt.Sprint("s8C1M8M", id)
	return []slurm.Job{j}, nil
}

// filled100k returns a poller that knows all jobs, over HTTP, and the bytes that it needs.
func filled100k(b *testing.B) (p *jobPoller, server *premade, memory uint64) {
	b.Helper()
	server = newPremade(b)
	listener := httptest.NewServer(server)
	b.Cleanup(listener.Close)
	key, err := rest.TokensFromKey(rest.KeyConfig{Key: make([]byte, 32), User: "root"})
	if err != nil {
		b.Fatal(err)
	}
	client, err := rest.New(rest.Config{URL: listener.URL, Tokens: key})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(client.Close)
	scripted := &fill{Client: client, premade: server}
	for i, id := range []uint32{1, 2 * manyJobs / someJobs} {
		if scripted.records[i], err = client.Job(b.Context(), id); err != nil {
			b.Fatal(err)
		}
	}
	before := heap()
	c := New(scripted, Options{OnError: func(err error) { b.Error(err) }, Key: func(j slurm.Job) string { return j.SLUID }})
	p = &jobPoller{Cache: c}
	for !c.jobsSynced && !b.Failed() {
		pollOnce(b, p)
	}
	c.client = client
	pollOnce(b, p)
	return p, server, heap() - before
}

func heap() uint64 {
	runtime.GC()
	runtime.GC() // what had a finalizer goes now
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func pollOnce(b *testing.B, p *jobPoller) {
	b.Helper()
	if _, err := p.poll(b.Context()); err != nil {
		b.Fatal(err)
	}
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkPoll100k polls 100,000 jobs of which 100 change: half of them start,
// the others wait again. All is counted: the calls over HTTP, the JSON, the
// garbage, and the other side's writing of answers too, as it is in this process.
func BenchmarkPoll100k(b *testing.B) {
	p, server, memory := filled100k(b)
	b.ReportAllocs()
	start := processorTime(b)
	for b.Loop() {
		server.phase = 1 - server.phase
		pollOnce(b, p)
	}
	b.ReportMetric(float64(processorTime(b)-start)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(memory)/(1<<20), "MiB-in-use")
	if n := len(p.JobsInState(slurm.JobRunning)); n != someJobs/2 {
		b.Fatalf("%d jobs run, want %d", n, someJobs/2)
	}
}

// BenchmarkIdlePoll100k is the same with no change.
func BenchmarkIdlePoll100k(b *testing.B) {
	p, _, _ := filled100k(b)
	b.ReportAllocs()
	start := processorTime(b)
	for b.Loop() {
		pollOnce(b, p)
	}
	b.ReportMetric(float64(processorTime(b)-start)/float64(b.N), "cpu-ns/op")
}

// BenchmarkRead100k reads one job of 100,000 by an index, the 50 that run, and all.
func BenchmarkRead100k(b *testing.B) {
	p, _, _ := filled100k(b)
	for name, read := range map[string]func() int{
		"with key": func() int { return len(p.JobsWithKey("s8C1M8M77777")) },
		"running":  func() int { return len(p.JobsInState(slurm.JobRunning)) },
		"all":      func() int { return len(p.Jobs()) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if read() == 0 {
					b.Fatal("no job")
				}
			}
		})
	}
}
