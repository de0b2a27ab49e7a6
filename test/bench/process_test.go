package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/slinky-hpc/slinky/test/bench/measure"
)

// binaries is the environment variable that names the folder of the programs to measure.
const binaries = "SLINKY_BENCH_BIN"

// process is one of the programs, alone in its process so that its processor time can be read.
type process struct {
	name  string
	cmd   *exec.Cmd
	ended chan struct{}
	// stopping is closed before the program is told to end.
	stopping chan struct{}
}

// start starts a program of the repository; it ends with the test at the latest. If
// it ends before, the whole run does.
func (w *world) start(t *testing.T, name, program, kubeconfig string, args ...string) *process {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(os.Getenv(binaries), program), args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	// A killed test leaves nothing behind.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p := &process{name: name, cmd: cmd, ended: make(chan struct{}), stopping: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The signal comes at the end of the thread that started the process, so that one must stay.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		log.Close()
		started <- err
		if err == nil {
			_ = cmd.Wait() // it ends by our signal; the state says nothing
		}
		close(p.ended)
		select {
		case <-p.stopping:
		default:
			w.abort(fmt.Errorf("%s has ended by itself", name))
		}
	}()
	if err := <-started; err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("--- %s\n%s", name, text[max(0, len(text)-4000):])
		}
	})
	return p
}

func (p *process) stop() {
	close(p.stopping)
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	grace := time.NewTimer(5 * time.Second)
	defer grace.Stop()
	select {
	case <-p.ended:
	case <-grace.C:
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// usage is the processor time of programs over some time.
type usage struct {
	at   time.Time
	used map[string]float64
}

func usageOf(processes ...*process) usage {
	u := usage{at: time.Now(), used: map[string]float64{}}
	for _, p := range processes {
		u.used[p.name] = measure.ProcessCPU(p.cmd.Process.Pid)
	}
	return u
}

// since returns the share of one processor that each program used since before, and all together.
func (u usage) since(before usage) (each map[string]float64, all float64) {
	each = map[string]float64{}
	for name, used := range u.used {
		each[name] = (used - before.used[name]) / u.at.Sub(before.at).Seconds()
		all += each[name]
	}
	return each, all
}
