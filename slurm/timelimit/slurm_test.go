package timelimit

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/slinky-hpc/slinky/slurm/slurmtest"
)

// Each limit becomes a partition's, and Slurm says what it has understood.
func TestAgainstSlurm(t *testing.T) {
	c := slurmtest.Start(t, slurmtest.Options{})
	answers := slurmsAnswers()
	r := rand.New(rand.NewPCG(20, 26))
	for len(answers) < 300 {
		answers[randomLimit(r)] = "?"
	}
	// Blanks would make two words of a command.
	limits := slices.DeleteFunc(slices.Sorted(maps.Keys(answers)), func(l string) bool { return l == "" || strings.Contains(l, " ") })
	// A refused limit changes nothing: it answers with the one that was set before it.
	script := `for l; do
		printf 'update partitionname=ext maxtime=%s\n' 7-7:07 "$l"
		echo show partition ext
	done | scontrol -o 2>/dev/null || true # it fails for what it refused`
	var lines []string
	for line := range strings.Lines(c.Run(t, append([]string{"bash", "-c", script, "limits"}, limits...)...)) {
		if strings.HasPrefix(line, "PartitionName=ext ") {
			lines = append(lines, line)
		}
	}
	if len(lines) != len(limits) {
		t.Fatalf("%d answers to %d limits", len(lines), len(limits))
	}
	for i, l := range limits {
		_, answer, _ := strings.Cut(lines[i], "MaxTime=")
		answer, _, _ = strings.Cut(answer, " ")
		ours := "7-07:07:00"
		if n, err := Parse(l); err == nil {
			ours = Format(n)
		}
		if ours != answer {
			t.Errorf("%q: %s, but Slurm says %s", l, ours, answer)
		}
		if want := answers[l]; want != "?" && want != "" && want != answer {
			t.Errorf("%q: the table says %s, Slurm says %s", l, want, answer)
		}
	}
}

func randomLimit(r *rand.Rand) string {
	parts := make([]string, 1+r.IntN(4))
	for i := range parts {
		parts[i] = fmt.Sprintf("%0*d", 1+r.IntN(2), r.IntN(70))
	}
	s := strings.Join(parts, ":")
	if r.IntN(2) == 0 {
		s = fmt.Sprint(r.IntN(400)) + "-" + s
	}
	return s
}
