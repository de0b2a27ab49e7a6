package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// printFailures shows each failing test in full.
func (r *runner) printFailures(results []result) {
	for _, t := range results {
		if t.outcome == failed {
			fmt.Fprintf(r.out, "\n--- FAILED: %s\n%s\n", t.id, strings.TrimRight(t.output, "\n"))
		}
	}
}

// printSummary writes the table and the last line, and tells whether all is well.
func printSummary(out io.Writer, reports []report, artifacts string) bool {
	total := map[outcome]int{}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "stage\twhat ran where\tpassed\tfailed\tskipped\tseconds\t")
	for _, rep := range reports {
		count := map[outcome]int{}
		for _, t := range rep.results {
			count[t.outcome]++
			total[t.outcome]++
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%d\t\n", rep.stage.name, rep.stage.where,
			count[passed], count[failed], count[skipped], rep.elapsed.Round(time.Second)/time.Second)
	}
	table.Flush()
	for _, rep := range reports {
		for _, t := range rep.results {
			switch t.outcome {
			case failed:
				fmt.Fprintf(out, "failed: %s: %s\n", rep.stage.name, t.id)
			case skipped:
				fmt.Fprintf(out, "skipped: %s: %s\n", rep.stage.name, t.id)
			}
		}
	}
	fmt.Fprintf(out, "Logs: %s\n", artifacts)
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", total[passed], total[failed], total[skipped])
	return total[failed] == 0 && total[passed] > 0
}
