package container

import (
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Options are what a user asks for on the command line of srun, sbatch or salloc, and what the plugin adds.
type Options struct {
	Image     string
	Mounts    []Mount
	Workdir   string
	Name      string
	Save      string
	MountHome bool
	RemapRoot bool
	ReadOnly  bool
	KeepEnv   []string // variables whose value in the job counts, not the one in the image

	Data   string // folder of the user's for images and containers
	Step   string // names the step on this node
	Script string // the batch script, "" in other steps
}

// Mount is one entry of --container-mounts.
type Mount struct {
	Source   string // a path outside, or "tmpfs"
	Target   string // absolute path inside
	ReadOnly bool
}

const tmpfs = "tmpfs"

var (
	containerName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`)
	stepName      = regexp.MustCompile(`^[0-9]+\.[0-9]+$`)
)

// ParseOptions reads the arguments that the plugin gives; relative paths start at dir.
func ParseOptions(args []string, dir string) (Options, error) {
	o := Options{}
	var mounts, env string
	// Of an option and its opposite the user may give one only.
	given := map[string]bool{}
	f := flag.NewFlagSet("slurm-container", flag.ContinueOnError)
	f.SetOutput(discard{})
	f.StringVar(&o.Image, "container-image", "", "")
	f.StringVar(&mounts, "container-mounts", "", "")
	f.StringVar(&o.Workdir, "container-workdir", "", "")
	f.StringVar(&o.Name, "container-name", "", "")
	f.StringVar(&o.Save, "container-save", "", "")
	f.StringVar(&env, "container-env", "", "")
	for _, name := range []string{
		"container-mount-home", "no-container-mount-home", "container-remap-root", "no-container-remap-root",
		"container-writable", "container-readonly",
	} {
		f.BoolFunc(name, "", func(string) error { given[name] = true; return nil })
	}
	f.StringVar(&o.Data, "data", "", "")
	f.StringVar(&o.Step, "step", "", "")
	f.StringVar(&o.Script, "script", "", "")
	if err := f.Parse(args); err != nil {
		return Options{}, err
	}
	if f.NArg() > 0 {
		return Options{}, fmt.Errorf("%q is not an option", f.Arg(0))
	}
	for _, pair := range [][2]string{
		{"container-mount-home", "no-container-mount-home"},
		{"container-remap-root", "no-container-remap-root"},
		{"container-writable", "container-readonly"},
	} {
		if given[pair[0]] && given[pair[1]] {
			return Options{}, fmt.Errorf("--%s and --%s are opposites: give one of them", pair[0], pair[1])
		}
	}
	o.MountHome, o.RemapRoot, o.ReadOnly = given["container-mount-home"], given["container-remap-root"], given["container-readonly"]
	var err error
	if o.Mounts, err = parseMounts(mounts, dir); err != nil {
		return Options{}, err
	}
	if env != "" {
		o.KeepEnv = strings.Split(env, ",")
	}
	if o.Save != "" {
		o.Save = absolute(o.Save, dir)
	}
	return o, o.check()
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func (o Options) check() error {
	switch {
	case !filepath.IsAbs(o.Data) || strings.ContainsAny(o.Data, ":,\\"):
		return fmt.Errorf("the data folder %q must be an absolute path without colon, comma and backslash", o.Data)
	case !stepName.MatchString(o.Step):
		return fmt.Errorf("%q is not a step", o.Step)
	case o.Image == "" && o.Name == "":
		return errors.New("no image: give --container-image")
	case o.Name != "" && !containerName.MatchString(o.Name):
		return fmt.Errorf("--container-name=%s: a name is letters, digits, dots, dashes and underscores, up to 128", o.Name)
	case strings.HasSuffix(o.Save, "/"):
		return fmt.Errorf("--container-save=%s: give the path of a file, not of a folder", o.Save)
	case o.Workdir != "" && !filepath.IsAbs(o.Workdir):
		return fmt.Errorf("--container-workdir=%s: give an absolute path in the container", o.Workdir)
	case slices.Contains(o.KeepEnv, ""):
		return errors.New("--container-env: a name of a variable is empty")
	}
	return nil
}

// parseMounts reads SOURCE[:TARGET[:FLAG[+FLAG]]] entries with commas between them.
func parseMounts(text, dir string) ([]Mount, error) {
	if text == "" {
		return nil, nil
	}
	var out []Mount
	for entry := range strings.SplitSeq(text, ",") {
		m, err := parseMount(entry, dir)
		if err != nil {
			return nil, fmt.Errorf("--container-mounts: %q: %w", entry, err)
		}
		if !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	return out, nil
}

func parseMount(entry, dir string) (Mount, error) {
	parts := strings.SplitN(entry, ":", 3)
	source, target := parts[0], parts[0]
	if len(parts) > 1 {
		target = parts[1]
	}
	if source != tmpfs {
		if !isPath(source) {
			return Mount{}, errors.New(`the source must be a path that begins with "/" or "./", or the word tmpfs`)
		}
		source = absolute(source, dir)
		if len(parts) == 1 {
			target = source
		}
	}
	if !filepath.IsAbs(target) {
		return Mount{}, errors.New("the target must be an absolute path in the container")
	}
	m := Mount{Source: source, Target: filepath.Clean(target)}
	if m.Target == "/" {
		return Mount{}, errors.New("the target can't be the container's root")
	}
	if len(parts) < 3 || parts[2] == "" {
		return m, nil
	}
	for flag := range strings.SplitSeq(parts[2], "+") {
		switch flag {
		case "ro":
			m.ReadOnly = true
		case "rw":
			m.ReadOnly = false
		case "bind", "rbind", "private", "rprivate", "nosuid", "nodev": // what every mount of a container is
		default:
			return Mount{}, fmt.Errorf("flag %q is not known; there are ro and rw", flag)
		}
	}
	return m, nil
}

func isPath(s string) bool {
	return strings.HasPrefix(s, "/") || strings.HasPrefix(s, "./") || strings.HasPrefix(s, "../") || s == "." || s == ".."
}

// absolute keeps a slash at the end: it says that the user means a folder.
func absolute(path, dir string) string {
	if filepath.IsAbs(path) {
		return path
	}
	out := filepath.Join(dir, path)
	if strings.HasSuffix(path, "/") {
		out += "/"
	}
	return out
}
