package charts

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func TestCheck54OneOfTwoBudgets(t *testing.T) {
	spec := at(t, find(t, render(t, "slurm", "restapi: {pdb: {enabled: true, maxUnavailable: 1}}"), "PodDisruptionBudget", "slurm-restapi"), "spec")
	if spec, _ := spec.(map[string]any); fmt.Sprint(spec["maxUnavailable"]) != "1" || spec["minAvailable"] != nil {
		t.Errorf("the budget is %v, want maxUnavailable only", spec)
	}
	for _, component := range []string{"operator", "webhook"} {
		all := render(t, "slurm-operator", component+": {pdb: {enabled: true, maxUnavailable: 30%}}")
		name := map[string]string{"operator": "slurm-operator", "webhook": "slurm-operator-webhook"}[component]
		spec, _ := at(t, find(t, all, "PodDisruptionBudget", name), "spec").(map[string]any)
		if spec["maxUnavailable"] != "30%" || spec["minAvailable"] != nil {
			t.Errorf("the budget of %s is %v, want maxUnavailable only", component, spec)
		}
	}
}

// The charts carry the same custom resources and roles as config; one source, no drift.
func TestOneSource(t *testing.T) {
	rendered := render(t, "slurm-operator-crds", "keep: false")
	files, err := filepath.Glob(filepath.Join(root, "config/crd/*.yaml"))
	if err != nil || len(files) != len(rendered) {
		t.Fatalf("%d custom resources are rendered, there are %d: %v", len(rendered), len(files), err)
	}
	for _, file := range files {
		want := objects(t, read(t, file))[0]
		same(t, file, want.Object, find(t, rendered, want.GetKind(), want.GetName()).Object)
	}
	for _, crd := range render(t, "slurm-operator-crds", "") {
		if crd.GetAnnotations()["helm.sh/resource-policy"] != "keep" {
			t.Errorf("an uninstall would delete %s, and with it every Slurm cluster", crd.GetName())
		}
	}
	if n := len(render(t, "slurm-operator", "crds: {enabled: true}")) - len(render(t, "slurm-operator", "")); n != len(files) {
		t.Errorf("with crds.enabled, %d custom resources are rendered, want %d", n, len(files))
	}
	role := find(t, render(t, "slurm-operator", ""), "ClusterRole", "slurm-operator")
	same(t, "the operator's role", at(t, objects(t, read(t, root, "config/rbac/operator/role.yaml"))[0], "rules"), at(t, role, "rules"))
}

// In namespaced mode no right outside of the namespaces is left but that to see nodes and to
// ask whether a reader of metrics may, and no right gets lost. Owner references that block
// deletion need update of the owners' finalizers on hardened clusters.
func TestNamespacedRights(t *testing.T) {
	values := "operator: {namespaces: 'a,b'}\nrbac: {namespaced: true}\nwebhook: {enabled: false}"
	all := render(t, "slurm-operator", values)
	cluster := rights(t, find(t, all, "ClusterRole", "slurm-operator"))
	for _, right := range cluster {
		if !strings.HasPrefix(right, "/nodes ") && !strings.Contains(right, "/tokenreviews ") && !strings.Contains(right, "/subjectaccessreviews ") {
			t.Errorf("in all namespaces it may %s", right)
		}
	}
	granted := cluster
	for _, u := range all {
		if u.GetKind() == "Role" && slices.Contains([]string{"a", "slinky"}, u.GetNamespace()) {
			granted = append(granted, rights(t, u)...)
		}
	}
	whole := rights(t, find(t, render(t, "slurm-operator", ""), "ClusterRole", "slurm-operator"))
	for _, right := range whole {
		if !slices.Contains(granted, right) {
			t.Errorf("in namespaced mode the operator may no longer %s", right)
		}
		if strings.Contains(right, "*") {
			t.Errorf("a right is for everything: %s", right)
		}
	}
	for _, kind := range []string{"controllers", "accountings", "restapis", "nodesets", "loginsets", "tokens"} {
		if right := "slinky.slurm.net/" + kind + "/finalizers update"; !slices.Contains(whole, right) {
			t.Errorf("there is no right %q", right)
		}
	}
	for _, namespace := range []string{"a", "b"} {
		if !slices.ContainsFunc(all, func(u *unstructured.Unstructured) bool {
			return u.GetKind() == "RoleBinding" && u.GetNamespace() == namespace && u.GetName() == "slurm-operator"
		}) {
			t.Errorf("no RoleBinding in namespace %s", namespace)
		}
	}
}

// rights are the rules of a role, one line for each group, resource and verb.
func rights(t *testing.T, role *unstructured.Unstructured) []string {
	t.Helper()
	var rules []struct{ APIGroups, Resources, Verbs []string }
	text, err := yaml.Marshal(role.Object["rules"])
	if err == nil {
		err = yaml.Unmarshal(text, &rules)
	}
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range rules {
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					out = append(out, group+"/"+resource+" "+verb)
				}
			}
		}
	}
	return out
}

// S163, S167: pull secrets, pull policy, registry and scheduling reach every pod of every chart.
func TestEveryPod(t *testing.T) {
	helm(t)
	const anywhere = "registry.example.com/mirror"
	scheduling := "nodeSelector: {pool: x}, affinity: {nodeAffinity: {}}, tolerations: [{operator: Exists}]"
	for name, values := range map[string]string{
		"slurm-operator": "priorityClassName: high\noperator: {" + scheduling + "}\nwebhook: {" + scheduling + "}\ncertManager: {enabled: false}",
		"slurm": "priorityClass: {enabled: true, name: high}\ncontroller: {podSpec: {" + scheduling + "}}\nrestapi: {podSpec: {" + scheduling + "}}\n" +
			"accounting: {enabled: true, podSpec: {" + scheduling + "}}\nnodesetDefaults: {podSpec: {" + scheduling + "}}\nnodesets: {a: {}}\n" +
			"loginsetDefaults: {podSpec: {" + scheduling + "}}\nloginsets: {b: {}}",
	} {
		t.Run(name, func(t *testing.T) {
			values += "\nimagePullSecrets: [{name: pull}]\nimagePullPolicy: Never\nnamespaceOverride: elsewhere\nimageRegistry: " + anywhere
			if name == "slurm-operator" {
				values = strings.ReplaceAll(values, "operator: {node", "operator: {imagePullPolicy: null, node")
				values = strings.ReplaceAll(values, "webhook: {node", "webhook: {imagePullPolicy: null, node")
			}
			pods := 0
			for _, u := range render(t, name, values) {
				if u.GetNamespace() != "elsewhere" && u.GetNamespace() != "" {
					t.Errorf("%s %s is in namespace %s", u.GetKind(), u.GetName(), u.GetNamespace())
				}
				spec, ok := podSpec(u)
				if !ok {
					continue
				}
				pods++
				what := u.GetKind() + " " + u.GetName()
				same(t, what+": pull secrets", any([]any{map[string]any{"name": "pull"}}), spec["imagePullSecrets"])
				same(t, what+": priority class", any("high"), spec["priorityClassName"])
				same(t, what+": tolerations", any([]any{map[string]any{"operator": "Exists"}}), spec["tolerations"])
				if selector, _ := spec["nodeSelector"].(map[string]any); selector["pool"] != "x" || spec["affinity"] == nil {
					t.Errorf("%s is placed by %v, %v", what, selector, spec["affinity"])
				}
				for _, c := range containers(u) {
					image, _ := c["image"].(string)
					if !strings.HasPrefix(image, anywhere+"/") || c["imagePullPolicy"] != "Never" {
						t.Errorf("%s has image %s, pulled %v", what, image, c["imagePullPolicy"])
					}
				}
			}
			if want := map[string]int{"slurm": 5, "slurm-operator": 4}[name]; pods != want {
				t.Errorf("%d pod specs were looked at, want %d", pods, want)
			}
		})
	}
}

// podSpec finds the spec of the pods that an object leads to.
func podSpec(u *unstructured.Unstructured) (map[string]any, bool) {
	if u.GetKind() == "Pod" {
		spec, ok := u.Object["spec"].(map[string]any)
		return spec, ok
	}
	spec, ok, err := unstructured.NestedMap(u.Object, "spec", "template", "spec")
	return spec, ok && err == nil
}

// containers are those of a pod, or the ones that a custom resource describes.
func containers(u *unstructured.Unstructured) []map[string]any {
	var out []map[string]any
	if spec, ok := podSpec(u); ok {
		list, _ := spec["containers"].([]any)
		for _, c := range list {
			if m, ok := c.(map[string]any); ok {
				out = append(out, m)
			}
		}
	}
	spec, _ := u.Object["spec"].(map[string]any)
	for _, field := range []string{"slurmctld", "reconfigure", "logfile", "slurmrestd", "slurmdbd", "slurmd", "login", "initconf"} {
		if c, ok := spec[field].(map[string]any); ok {
			out = append(out, c)
		}
	}
	return out
}

// S171: releases beside each other share no name.
func TestTwoReleases(t *testing.T) {
	values := read(t, "testdata/slurm/everything.yaml")
	values = strings.Replace(values, "  create: true\n", "  create: false\n", 1) // the class is of the whole Kubernetes cluster
	values, _, _ = strings.Cut(values, "extraObjects:")
	var all [2][]string
	for i, release := range []string{"a", "b"} {
		text, err := run(t, values, "template", release, chart("slurm"), "--values", "-")
		if err != nil {
			t.Fatal(err)
		}
		all[i] = names(objects(t, text))
	}
	for _, name := range all[1] {
		if first := all[0]; slices.Contains(first, name) {
			t.Errorf("both releases have %s", name)
		}
	}
}

// A new version of the chart alone changes no custom resource: their labels go to pods, which would be replaced.
func TestNewChartVersionChangesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "slurm")
	if err := os.CopyFS(dir, os.DirFS(chart("slurm"))); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "Chart.yaml")
	text := strings.Replace(read(t, file), "\nversion: ", "\nversion: 9", 1)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	values := read(t, "testdata/slurm/everything.yaml")
	before, err := template(t, "slurm", values)
	if err != nil {
		t.Fatal(err)
	}
	after, err := run(t, values, "template", "slurm", dir, "--namespace", "slurm", "--values", "-")
	if err != nil {
		t.Fatal(err)
	}
	same(t, "everything, with another version of the chart", before, after)
}

// S165: whatever section is taken away, nothing but a sentence comes out.
func TestMissingSections(t *testing.T) {
	helm(t)
	for _, name := range []string{"slurm", "slurm-operator", "slurm-bridge"} {
		base := read(t, "testdata", name, "everything.yaml")
		for _, path := range sections(defaultsOf(t, name), nil) {
			t.Run(name+"/"+strings.Join(path, "."), func(t *testing.T) {
				t.Parallel()
				_, err := template(t, name, base, "--set-json", strings.Join(path, ".")+"=null")
				if err != nil && !strings.Contains(err.Error(), strings.Join(path, ".")) && !strings.Contains(err.Error(), "/"+strings.Join(path, "/")) {
					t.Errorf("the error doesn't name the value: %v", err)
				}
			})
		}
	}
}

// sections are the paths of all maps in the defaults.
func sections(values map[string]any, above []string) [][]string {
	var out [][]string
	for key, value := range values {
		section, ok := value.(map[string]any)
		if !ok || strings.Contains(key, ".") {
			continue
		}
		path := append(slices.Clone(above), key)
		out = append(append(out, path), sections(section, path)...)
	}
	slices.SortFunc(out, slices.Compare)
	return out
}
