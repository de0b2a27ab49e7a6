package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"sigs.k8s.io/yaml"

	"github.com/slinky-hpc/slinky/internal/cli/table"
)

// output is what a command prints: tables for people, or the same facts for programs.
type output struct{ format string }

var formats = []string{"table", "wide", "json", "yaml", "name"}

func (o *output) add(c *cobra.Command, allowed ...string) {
	if len(allowed) == 0 {
		allowed = formats
	}
	c.Flags().StringVarP(&o.format, "output", "o", allowed[0], strings.Join(allowed, ", "))
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp))
	before := c.PreRunE
	c.PreRunE = func(c *cobra.Command, args []string) error {
		if o.format == "text" {
			o.format = allowed[0]
		}
		if !slices.Contains(allowed, o.format) {
			return usage("--output is %q: it can be %s", o.format, strings.Join(allowed, ", "))
		}
		if before != nil {
			return before(c, args)
		}
		return nil
	}
}

func (o *output) wide() bool { return o.format == "wide" }

// print prints v for programs, or what people and names return.
func (o *output) print(c *cobra.Command, v any, people func() string, names func() []string) error {
	return o.printTo(c.OutOrStdout(), v, people, names)
}

func (o *output) printTo(out io.Writer, v any, people func() string, names func() []string) error {
	switch o.format {
	case "json":
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(v)
	case "yaml":
		text, err := yaml.Marshal(v)
		if err == nil {
			_, err = out.Write(text)
		}
		return err
	case "name":
		for _, name := range names() {
			if _, err := fmt.Fprintln(out, name); err != nil {
				return err
			}
		}
		return nil
	}
	_, err := fmt.Fprint(out, people())
	return err
}

// listed is a list that programs find as one where it is empty, too, not as null.
func listed[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// each names the elements of a list.
func each[T any](list []T, name func(T) string) func() []string {
	return func() []string {
		var out []string
		for _, v := range list {
			out = append(out, name(v))
		}
		return out
	}
}

// style is what the terminal behind a command's output can do.
func (s *settings) style(c *cobra.Command) table.Style {
	f, ok := c.OutOrStdout().(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return table.Style{}
	}
	style := table.Style{Colour: s.env("NO_COLOR") == "" && s.env("TERM") != "dumb"}
	if w, _, err := term.GetSize(int(f.Fd())); err == nil {
		style.Width = w
	}
	return style
}
