package hostlist

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slinky-hpc/slinky/slurm/slurmtest"
)

// The same questions go to Slurm, many in one run of scontrol, and to this package.
func TestAgainstSlurm(t *testing.T) {
	c := slurmtest.Start(t, slurmtest.Options{})
	r := rand.New(rand.NewPCG(20, 26))
	const n = 600
	exprs := []string{"a", "a,,b", ",a", "a[01-3]", "n[1-2]-ib", "a[1-2,4]b[1-2]c[1-2]", "a[1-3", "a[3-1]", "a[]", "a[1,]", "a[x]", "a[1-2-3]"}
	for len(exprs) < n {
		exprs = append(exprs, randomExpr(r))
	}
	t.Run("hostnames", func(t *testing.T) {
		for i, answer := range ask(t, c, "hostnames", exprs) {
			names, err := Expand(exprs[i])
			if answer == "" && err != nil {
				continue // Slurm's refusal goes to standard error
			}
			if err != nil {
				t.Errorf("%q: %v, but Slurm says %q", exprs[i], err, answer)
			}
			if diff := cmp.Diff(answer, strings.Join(names, "\n")); diff != "" {
				t.Errorf("%q (-Slurm +ours):\n%s", exprs[i], diff)
			}
		}
	})
	lists := make([][]string, n)
	joined := make([]string, n)
	for i := range lists {
		lists[i] = randomNames(r)
		joined[i] = strings.Join(lists[i], ",")
	}
	t.Run("hostlist", func(t *testing.T) {
		for i, answer := range ask(t, c, "hostlist", joined) {
			if got := Join(lists[i]); got != answer {
				t.Errorf("%q: %q, but Slurm says %q", joined[i], got, answer)
			}
		}
	})
	t.Run("REST", func(t *testing.T) { againstREST(t, c, lists[:50]) })
	t.Run("hostlistsorted", func(t *testing.T) {
		falling := make([]string, n)
		for i := range lists {
			// Slurm joins neighbours before it sorts, and then sorts what it joined.
			// Falling names join to nothing.
			Sort(lists[i])
			down := slices.Clone(lists[i])
			slices.Reverse(down)
			falling[i] = strings.Join(down, ",")
		}
		for i, answer := range ask(t, c, "hostlistsorted", falling) {
			if got := Join(lists[i]); got != answer {
				t.Errorf("%q: %q, but Slurm says %q", falling[i], got, answer)
			}
		}
	})
}

// ask has one scontrol answer "show kind" for each expression, and returns the
// answers. It repeats each question, more or less, behind its prompt.
func ask(t *testing.T, c *slurmtest.Cluster, kind string, exprs []string) []string {
	t.Helper()
	argv := []string{"bash", "-c", `kind=$1; shift; printf "show $kind %s\n" "$@" | scontrol 2>/dev/null`, "ask", kind}
	out := strings.TrimSuffix(c.Run(t, append(argv, exprs...)...), "scontrol:")
	answers := strings.Split(strings.TrimPrefix(out, "scontrol: "), "scontrol: ")
	if len(answers) != len(exprs) {
		t.Fatalf("%d answers to %d questions", len(answers), len(exprs))
	}
	for i := range answers {
		_, answer, _ := strings.Cut(answers[i], "\n")
		answers[i] = strings.TrimSpace(answer)
	}
	return answers
}

func randomExpr(r *rand.Rand) string {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	var b strings.Builder
	for range 1 + r.IntN(3) {
		b.WriteString(pick("n", "gpu", "r-", "x9y", "", "A."))
		for range r.IntN(4) {
			b.WriteByte('[')
			for i := range 1 + r.IntN(3) {
				if i > 0 {
					b.WriteByte(',')
				}
				first := r.IntN(120)
				fmt.Fprintf(&b, "%0*d", r.IntN(4), first)
				if r.IntN(2) == 0 {
					fmt.Fprintf(&b, "-%0*d", r.IntN(4), first+r.IntN(6))
				}
			}
			b.WriteByte(']')
			b.WriteString(pick("", "", "n", "-ib", "7x"))
		}
		b.WriteString(pick(",", ",", ",,", ""))
	}
	return b.String()
}

func randomNames(r *rand.Rand) []string {
	prefixes := []string{"n", "n", "n", "m", "", "r1n", "r2n", "r10n", "r02n", "n-", "n.", "N", "a1b2c", "a1b10c", "a01b1c"}
	prefixes = prefixes[:1+r.IntN(len(prefixes))]
	var names []string
	next := r.IntN(12)
	for range 1 + r.IntN(12) {
		name := fmt.Sprintf("%s%0*d", prefixes[r.IntN(len(prefixes))], 1+r.IntN(10)/8, next)
		switch r.IntN(12) {
		case 0:
			name += "-ib"
		case 1:
			name = strings.TrimRight(name, "0123456789") + "x"
		case 2:
			next = r.IntN(1200)
		}
		names = append(names, name)
		next++
	}
	return names
}

// againstREST asks slurmrestd's own calls for hostlists, in both of its versions.
func againstREST(t *testing.T, c *slurmtest.Cluster, lists [][]string) {
	for i, names := range lists {
		base := c.URL + "/util/" + []string{"v0.0.44", "v0.0.45"}[i%2]
		expr := call(t, c, base+"/hostlist", answer{Hostnames: names}).Hostlist
		if got := Join(names); got != expr {
			t.Errorf("%q: %q, but Slurm says %q", names, got, expr)
		}
		back := call(t, c, base+"/hostnames", answer{Hostlist: expr}).Hostnames
		got, err := Expand(expr)
		if diff := cmp.Diff(back, got); err != nil || diff != "" {
			t.Errorf("%q: %v (-Slurm +ours):\n%s", expr, err, diff)
		}
	}
}

// answer is a question as well: Slurm answers either half with the other.
type answer struct {
	Hostlist  string   `json:"hostlist,omitempty"`
	Hostnames []string `json:"hostnames,omitempty"`
}

func call(t *testing.T, c *slurmtest.Cluster, address string, question answer) (a answer) {
	t.Helper()
	body, err := json.Marshal(question)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	token, err := c.Tokens(t, "root").Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-SLURM-USER-TOKEN", token)
	req.Header.Set("Content-Type", "application/json")
	client := http.Client{}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode == http.StatusOK {
		err = json.Unmarshal(text, &a)
	}
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v: %s", address, resp.Status, err, text)
	}
	return a
}
