package charts

import (
	"fmt"
	"strings"
	"testing"
)

// These tests follow defects that users of other charts have reported. Sxxx are the numbers of the cases.

// S166: generators write empty texts where they mean the default.
func TestS166ImagesByHalves(t *testing.T) {
	defaults := defaultImage(t, "nodesets: {debug: {}}")
	repository, _, _ := strings.Cut(defaults, ":")
	digest := "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for values, want := range map[string]string{
		`{repository: "", tag: ""}`:             defaults,
		`""`:                                    defaults,
		`{digest: "` + digest + `"}`:            repository + "@" + digest,
		`{repository: r.example.com/d, tag: 7}`: "r.example.com/d:7",
		`r.example.com/d:7`:                     "r.example.com/d:7",
		`r.example.com/d@` + digest:             "r.example.com/d@" + digest,
	} {
		if got := defaultImage(t, "nodesets: {debug: {slurmd: {image: "+values+"}}}"); got != want {
			t.Errorf("with image %s slurmd is %s, want %s", values, got, want)
		}
	}
}

func defaultImage(t *testing.T, values string) string {
	t.Helper()
	return fmt.Sprint(at(t, find(t, render(t, "slurm", values), "NodeSet", "slurm-worker-debug"), "spec", "slurmd", "image"))
}

// S173: the update strategy is the user's, and without one only some workers go at once.
func TestS173UpdateStrategy(t *testing.T) {
	all := render(t, "slurm", `
nodesetDefaults: {updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 10%}}}
nodesets: {a: {}, b: {updateStrategy: {type: OnDelete}}}`)
	none := render(t, "slurm", "nodesets: {a: {}}")
	for name, tc := range map[string]struct {
		got  any
		want string
	}{
		"defaults": {at(t, find(t, all, "NodeSet", "slurm-worker-a"), "spec", "updateStrategy"), "map[rollingUpdate:map[maxUnavailable:10%] type:RollingUpdate]"},
		"override": {at(t, find(t, all, "NodeSet", "slurm-worker-b"), "spec", "updateStrategy", "type"), "OnDelete"},
		"unset":    {at(t, find(t, none, "NodeSet", "slurm-worker-a"), "spec", "updateStrategy"), "map[rollingUpdate:map[maxUnavailable:25%] type:RollingUpdate]"},
	} {
		if got := fmt.Sprint(tc.got); got != tc.want {
			t.Errorf("%s: the strategy is %s, want %s", name, got, tc.want)
		}
	}
}

// S158: nothing that a chart renders is random, and what must be is made in the cluster once:
// the webhook's authority by the webhook itself.
func TestS158NoAuthorityInTheChart(t *testing.T) {
	for _, u := range render(t, "slurm-operator", "certManager: {enabled: false}") {
		if u.GetKind() == "Secret" {
			t.Errorf("the chart makes Secret %s", u.GetName())
		}
		if webhooks, ok := at(t, u, "webhooks").([]any); ok {
			for _, w := range webhooks {
				client, _ := w.(map[string]any)["clientConfig"].(map[string]any)
				if bundle := client["caBundle"]; bundle != nil {
					t.Errorf("%s of the chart carries an authority: %v", u.GetName(), bundle)
				}
			}
		}
	}
}
