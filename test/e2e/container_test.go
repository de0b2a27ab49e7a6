package e2e

import (
	"archive/tar"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	registry "github.com/google/go-containerregistry/pkg/name"
)

// pretty is a line that only the container's image has.
const pretty = `PRETTY_NAME="A system of its own"`

// sharedFolder is where the workers of the example have the users' files.
const sharedFolder = "/home/shared"

// containers is a cluster whose jobs can run in containers, seen by an ordinary user on a worker.
type containers struct {
	*cluster
	dir string // the user's, on all workers
}

// A user who may do nothing special runs jobs in an image from an archive, on one node and on two, by srun and by sbatch.
func TestJobsInContainers(t *testing.T) {
	t.Parallel()
	b := open(t, "e2e-containers")
	b.must("", "load", imageArchive(b, "slurmd-container"))
	manifest := strings.NewReplacer("namespace: containers\n", "namespace: "+b.namespace+"\n",
		"kind: Namespace\nmetadata:\n  name: containers\n", "kind: Namespace\nmetadata:\n  name: "+b.namespace+"\n")
	c := &containers{cluster: b.cluster(manifest.Replace(example(t, "pyxis/cluster.yaml"))), dir: filepath.Join(sharedFolder, b.namespace)}
	c.nodesAre("idle", "cpu-0", "cpu-1")
	c.worker("", "sh", "-ec", "groupadd --gid 2001 alice; useradd --uid 2001 --gid 2001 alice; install -d -o alice "+c.dir)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if _, err := b.run(ctx, "", c.onWorker("rm", "-rf", c.dir)...); err != nil {
			t.Logf("clean up: %v", err)
		}
	})
	c.worker(pictureArchive(b), "sh", "-c", "cat >"+c.dir+"/image.tar")

	if got := c.alice("", "srun", "--container-image=./image.tar", "grep", "PRETTY", "/etc/os-release"); strings.TrimSpace(got) != pretty {
		t.Errorf("the container's os-release says %q, want %q", got, pretty)
	}
	c.overTwoNodes()
	c.batch()
	c.mounts()
	c.names()
	c.refusals()
	c.brokenBatch()
}

// worker runs a command as root on a worker.
func (c *containers) worker(stdin string, args ...string) string {
	c.t.Helper()
	return c.must(stdin, c.onWorker(args...)...)
}

func (c *containers) onWorker(args ...string) []string {
	return append([]string{"kubectl", "exec", "-i", "-n", c.namespace, "cpu-0", "-c", "slurmd", "--"}, args...)
}

func (c *containers) asAlice(args ...string) []string {
	command := []string{"setpriv", "--reuid=2001", "--regid=2001", "--clear-groups", "env", "--chdir=" + c.dir, "HOME=" + c.dir, "USER=alice"}
	return c.onWorker(append(command, args...)...)
}

func (c *containers) alice(stdin string, args ...string) string {
	c.t.Helper()
	return c.must(stdin, c.asAlice(args...)...)
}

func (c *containers) overTwoNodes() {
	c.t.Helper()
	out := c.alice("", "srun", "--nodes=2", "--ntasks=2", "--container-image=./image.tar", "sh", "-c",
		`echo "$SLURMD_NODENAME $(id -u) $(sed -n s/^PRETTY_NAME=//p /etc/os-release) $(touch /mine && echo writable) $(cat /gone 2>&1 | wc -l)"`)
	want := []string{`cpu-0 2001 "A system of its own" writable 1`, `cpu-1 2001 "A system of its own" writable 1`}
	if d := cmp.Diff(want, slices.Sorted(slices.Values(strings.Split(strings.TrimSpace(out), "\n")))); d != "" {
		c.t.Errorf("a step over two nodes (-want +got):\n%s", d)
	}
}

// batch runs a script in a container. It is a script of the node's, so it must be there in the container, too.
func (c *containers) batch() {
	c.t.Helper()
	c.alice("#!/bin/bash\n#SBATCH --container-image=./image.tar\n#SBATCH --output=job.out\n"+
		"grep PRETTY /etc/os-release\necho $0 has $(wc -l <$0) lines\n", "sbatch", "--wait")
	out := c.alice("", "cat", "job.out")
	if !strings.Contains(out, pretty) || !strings.Contains(out, "slurm_script has 5 lines") {
		c.t.Errorf("the batch script's output is %q", out)
	}
}

func (c *containers) mounts() {
	c.t.Helper()
	out := c.alice("", "srun", "--container-image=./image.tar", "--container-mounts=.:/data:ro,tmpfs:/scratch", "--container-workdir=/data",
		"--container-remap-root", "sh", "-c", "pwd; id -u; ls image.tar; touch x 2>&1; touch /scratch/x && ls /scratch")
	want := "/data\n0\nimage.tar\ntouch: cannot touch 'x': Read-only file system\nx\n"
	if d := cmp.Diff(want, out); d != "" {
		c.t.Errorf("mounts (-want +got):\n%s", d)
	}
}

// names keeps a container for a second step, saves it, and starts a third from the file.
func (c *containers) names() {
	c.t.Helper()
	srun := func(args ...string) string {
		return c.alice("", append([]string{"srun", "--nodelist=cpu-1"}, args...)...)
	}
	srun("--container-image=./image.tar", "--container-name=kept", "sh", "-c", "echo more >/more; rm /etc/debian_version")
	srun("--container-name=kept", "--container-save=saved.sqsh", "sh", "-c", "echo still >>/more")
	if out := srun("--container-image=./saved.sqsh", "sh", "-c", "cat /more; ls /etc/debian_version 2>&1 | wc -l; echo $WHERE"); out != "more\nstill\n1\nin the image\n" {
		c.t.Errorf("the saved container gives %q", out)
	}
}

// refusals are sentences that a user can act on, and no job runs beside its container.
func (c *containers) refusals() {
	c.t.Helper()
	for option, want := range map[string]string{
		"--container-image=./nothing.tar":           "nothing.tar: no such file or directory",
		"--container-image=debian:12":               "debian:12 is not a path",
		"--container-name=never":                    "there is no container never of yours on this node: give --container-image, too",
		"--container-mounts=/a:/b":                  "does nothing without --container-image",
		"--container-image=/etc/hostname":           "it is no image archive",
		"--container-image=/root/.bashrc":           "permission denied",
		"--container-name=../../../../etc/hostname": "a name is letters",
	} {
		out, err := c.run(c.t.Context(), "", c.asAlice("srun", option, "echo", "ran", "outside")...)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(out, "ran outside") {
			c.t.Errorf("srun %s: %v, printed %q; want an error with %q", option, err, out, want)
		}
	}
}

// brokenBatch: Slurm drains a node on which a script can't be started, and goes on with the next. A wrong path must not do that.
func (c *containers) brokenBatch() {
	c.t.Helper()
	_, err := c.run(c.t.Context(), "#!/bin/sh\necho ran\n", c.asAlice("sbatch", "--wait", "--output=broken.out", "--container-image=./nothing.tar")...)
	if err == nil {
		c.t.Error("a batch job without its image ends well")
	}
	out := c.alice("", "cat", "broken.out")
	if !strings.Contains(out, "nothing.tar: no such file or directory") || strings.Contains(out, "ran\n") {
		c.t.Errorf("the output of a batch job without its image is %q", out)
	}
	c.nodesAre("idle", "cpu-0", "cpu-1")
}

// imageArchive builds images unless they are there, and returns their archive.
func imageArchive(b *box, names ...string) string {
	b.t.Helper()
	out, err := exec.CommandContext(b.t.Context(), b.slinky, append([]string{"images", "--quiet"}, names...)...).Output()
	if err != nil {
		b.t.Fatalf("slinky images %s: %v", strings.Join(names, " "), err)
	}
	return strings.TrimSpace(string(out))
}

// pictureArchive is an image as docker save would write it: Debian with a layer that changes a file, removes one and sets a variable.
func pictureArchive(b *box) string {
	b.t.Helper()
	dir := b.t.TempDir()
	if out, err := exec.CommandContext(b.t.Context(), "tar", "--extract", "--file", imageArchive(b, "debian"), "--directory", dir).CombinedOutput(); err != nil {
		b.t.Fatalf("unpack the archive of debian: %v\n%s", err, out)
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		b.t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		b.t.Fatal(err)
	}
	img, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		b.t.Fatal(err)
	}
	if img, err = changed(img); err != nil {
		b.t.Fatal(err)
	}
	tag, err := registry.NewTag("site/own:1")
	if err != nil {
		b.t.Fatal(err)
	}
	path := filepath.Join(dir, "own.tar")
	if err := tarball.WriteToFile(path, tag, img); err != nil {
		b.t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

func changed(img v1.Image) (v1.Image, error) {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for name, text := range map[string]string{"etc/os-release": pretty + "\n", "etc/.wh.issue": ""} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
			return nil, err
		}
		if _, err := w.Write([]byte(text)); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	img, err := mutate.AppendLayers(img, static.NewLayer(layer.Bytes(), types.DockerUncompressedLayer))
	if err != nil {
		return nil, err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config := *file.Config.DeepCopy()
	config.Env = append(config.Env, "WHERE=in the image")
	return mutate.Config(img, config)
}
