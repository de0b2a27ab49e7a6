package archtest

import "strings"

const module = "github.com/slinky-hpc/slinky"

// rule is one sentence about imports. Patterns are import paths; a pattern that
// ends in "/..." covers the path and all below it, and "std" is the standard
// library. Test files are free: the rules are about what ships.
type rule struct {
	name string
	why  string

	// For lists the packages that the rule is about, except those in Except.
	For    []string
	Except []string

	// Only, if set, lists everything that may be imported directly.
	Only []string
	// Never lists what may not be imported directly.
	Never []string
	// NeverLinked lists what may not be reached at all, by whatever way.
	NeverLinked []string
}

// slurmModel is Slurm as plain values and the little languages around it: no
// connection, no clock.
var slurmModel = []string{
	module + "/slurm", module + "/slurm/feature/...", module + "/slurm/hostlist/...", module + "/slurm/tres/...", module + "/slurm/conf/...",
}

var kubernetesTypes = []string{"k8s.io/api/...", "k8s.io/apimachinery/..."}

// kubernetesSums are Kubernetes' own pure functions over those types: what a pod
// asks for, which node fits an affinity. klog is there because some of them take
// a logger; they get the empty one.
var kubernetesSums = []string{
	"k8s.io/component-helpers/resource/...", "k8s.io/component-helpers/scheduling/corev1/...", "k8s.io/klog/v2",
}

// impure is the part of the standard library that reads or changes the world.
var impure = []string{
	"net", "net/http/...", "os/...", "syscall", "math/rand/...", "crypto/rand", "io/ioutil", "log/...", "testing/...",
}

// forTests are packages that only tests import.
var forTests = []string{
	module + "/slurm/slurmtest/...", module + "/internal/apitest/...", module + "/internal/archtest/...", module + "/internal/observe/worlds/worldstest/...",
}

// products are the parts of Slinky that must be able to live without each other.
var products = []string{"operator", "bridge", "dracpu", "exporter"}

func importRules() []rule {
	rules := []rule{
		{
			name: "api", why: "users import the API types without the rest of Slinky",
			For:  []string{module + "/api/..."},
			Only: join([]string{"std", module + "/api/..."}, kubernetesTypes),
		},
		{
			name: "slurm", why: "the Slurm client serves programs that know nothing of Kubernetes",
			For:         []string{module + "/slurm/..."},
			Except:      []string{module + "/slurm/rest/..."},
			Only:        []string{"std", module + "/slurm/..."},
			NeverLinked: []string{"k8s.io/...", "sigs.k8s.io/..."},
		},
		{
			name: "slurm/rest", why: "the REST client uses the runtime of its generated code and signs tokens, and needs nothing else",
			For:         []string{module + "/slurm/rest/..."},
			Only:        []string{"std", module + "/slurm/...", "github.com/oapi-codegen/runtime/...", "github.com/golang-jwt/jwt/v5"},
			NeverLinked: []string{"k8s.io/...", "sigs.k8s.io/..."},
		},
		{
			name: "one REST version at a time", why: "a new Slurm release is a new folder below slurm/rest and touches nothing else",
			For:    []string{module + "/..."},
			Except: []string{module + "/slurm/rest/..."},
			Never:  []string{module + "/slurm/rest/v0044/...", module + "/slurm/rest/v0045/..."},
		},
		{
			name: "plan", why: "plans are computed from facts alone, so that they can be tested, replayed and explained",
			For:         []string{module + "/internal/plan/..."},
			Only:        join([]string{"std", module + "/api/...", module + "/internal/plan/..."}, slurmModel, kubernetesTypes, kubernetesSums),
			Never:       impure,
			NeverLinked: []string{"k8s.io/client-go/...", "sigs.k8s.io/controller-runtime/..."},
		},
		{
			name: "observe and act", why: "reading and writing serve every part, so they know none of them",
			For:   []string{module + "/internal/observe/...", module + "/internal/act/..."},
			Never: partPaths(""),
		},
		{
			name: "bridge/scheduler", why: "the scheduling cycle makes no remote call",
			For:         []string{module + "/internal/bridge/scheduler/..."},
			Never:       []string{"net/http", "net/http/...", "k8s.io/client-go/..."},
			NeverLinked: []string{module + "/slurm/rest/..."},
		},
		{
			name: "k8s.io/kubernetes", why: "it costs minutes to compile and is no library; only the scheduler needs it",
			For:         []string{module + "/..."},
			Except:      []string{module + "/internal/bridge/scheduler/...", module + "/cmd/bridge-scheduler/..."},
			NeverLinked: []string{"k8s.io/kubernetes/..."},
		},
		{
			name: "tests stay out of production", why: "what helps a test must not ship",
			For:         []string{module + "/..."},
			Except:      append([]string{module + "/test/...", module + "/hack/..."}, forTests...),
			Never:       []string{"testing", "testing/...", "net/http/httptest", "github.com/google/go-cmp/...", module + "/test/..."},
			NeverLinked: forTests,
		},
		{
			name: "public packages", why: "whoever imports api or slurm must not pull in our inside",
			For:   []string{module + "/api/...", module + "/slurm/..."},
			Never: []string{module + "/internal/...", module + "/cmd/..."},
		},
		{
			name: "commands are ends", why: "a command is flags and one call; nothing builds on it",
			For:    []string{module + "/..."},
			Never:  []string{module + "/cmd/..."},
			Except: []string{module + "/cmd/..."},
		},
	}
	for _, p := range products {
		rules = append(rules, rule{
			name: p + " stands alone", why: "the parts meet in plan, observe and act, never in each other",
			For:   []string{module + "/internal/" + p + "/..."},
			Never: partPaths(p),
		})
	}
	return rules
}

// partPaths are the packages of all products but the one named.
func partPaths(except string) []string {
	var paths []string
	for _, p := range products {
		if p != except {
			paths = append(paths, module+"/internal/"+p+"/...")
		}
	}
	return paths
}

func join(lists ...[]string) []string {
	var all []string
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// covers tells whether one of the patterns matches the import path.
func covers(patterns []string, path string) bool {
	for _, p := range patterns {
		base, tree := strings.CutSuffix(p, "/...")
		switch {
		case path == base,
			tree && strings.HasPrefix(path, base+"/"),
			p == "std" && isStd(path):
			return true
		}
	}
	return false
}

// isStd: the first element of a path of the standard library has no dot.
func isStd(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}
