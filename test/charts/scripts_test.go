package charts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The scripts for the DCGM exporter, run as slurmd runs them: a file for each GPU names its jobs.
func TestJobsOfGPUs(t *testing.T) {
	dir := t.TempDir()
	all := render(t, "slurm", "vendor: {nvidia: {dcgm: {enabled: true, jobMappingDir: "+dir+"}}}")
	script := func(kind, job, gpus string) {
		t.Helper()
		text, ok := at(t, find(t, all, "ConfigMap", "slurm-"+kind+"-dcgm"), "data", kind+"-90-nvidia-dcgm.sh").(string)
		if !ok {
			t.Fatalf("there is no script of the %s", kind)
		}
		cmd := exec.CommandContext(t.Context(), "sh")
		cmd.Env = append(os.Environ(), "SLURM_JOB_ID="+job, "SLURM_JOB_GPUS="+gpus)
		cmd.Stdin = strings.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("%s of job %s: %v\n%s", kind, job, err, out)
		}
	}
	jobs := func() map[string]string {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for _, file := range files {
			out[filepath.Base(file)] = read(t, file)
		}
		return out
	}
	script("prolog", "7", "0,2-3")
	script("prolog", "7", "0,2-3") // a requeued job
	script("prolog", "17", "3")
	script("prolog", "8", "") // no GPU
	same(t, "while both jobs run", map[string]string{"0": "7\n", "2": "7\n", "3": "7\n17\n"}, jobs())
	script("epilog", "7", "")
	same(t, "after job 7", map[string]string{"3": "17\n"}, jobs())
	script("epilog", "17", "")
	same(t, "after both", map[string]string{}, jobs())
}
