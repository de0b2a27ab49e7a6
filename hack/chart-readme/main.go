// Command chart-readme writes the table of values into the README.md of Helm charts, from
// the comments in values.yaml that begin with "# --".
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

func main() {
	for _, dir := range os.Args[1:] {
		if err := write(dir); err != nil {
			fmt.Fprintf(os.Stderr, "chart-readme: %s: %v\n", dir, err)
			os.Exit(1)
		}
	}
}

const begin, end = "<!-- values: begin -->\n", "<!-- values: end -->\n"

func write(dir string) error {
	values, err := os.ReadFile(filepath.Join(dir, "values.yaml"))
	if err != nil {
		return err
	}
	table, err := markdown(values)
	if err != nil {
		return fmt.Errorf("values.yaml: %w", err)
	}
	path := filepath.Join(dir, "README.md")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := bytes.Cut(text, []byte(begin))
	_, after, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		return errors.New("README.md has no lines " + begin + " and " + end)
	}
	return os.WriteFile(path, bytes.Join([][]byte{before, []byte(begin), []byte(table), []byte(end), after}, nil), 0o644)
}

// markdown is a table of the documented values.
func markdown(values []byte) (string, error) {
	var defaults map[string]any
	if err := yaml.Unmarshal(values, &defaults); err != nil {
		return "", err
	}
	var out strings.Builder
	out.WriteString("| value | default | meaning |\n|---|---|---|\n")
	for _, d := range documented(string(values)) {
		value, ok := lookUp(defaults, d.path)
		if !ok {
			return "", fmt.Errorf("%s is described but not there", strings.Join(d.path, "."))
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s |\n", strings.Join(d.path, "."), show(value), strings.ReplaceAll(d.text, "|", `\|`))
	}
	return out.String(), nil
}

type description struct {
	path []string
	text string
}

// documented finds the values with a description. The charts' values.yaml have two blanks
// for each level and one key in a line, so no parser that keeps comments is needed.
func documented(values string) []description {
	var out []description
	var path []string
	text, open := "", false
	for line := range strings.Lines(values) {
		line = strings.TrimRight(line, "\n")
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(trimmed, "# -- "):
			text, open = strings.TrimPrefix(trimmed, "# -- "), true
		case strings.HasPrefix(trimmed, "# ") && open:
			text += " " + strings.TrimPrefix(trimmed, "# ")
		default:
			key, _, isKey := strings.Cut(trimmed, ":")
			if !isKey || strings.HasPrefix(trimmed, "#") || strings.HasPrefix(trimmed, "- ") || strings.ContainsAny(key, " [=") {
				text, open = "", false
				continue
			}
			level := (len(line) - len(strings.TrimLeft(line, " "))) / 2
			path = append(path[:min(level, len(path))], key)
			if open {
				out = append(out, description{append([]string(nil), path...), text})
			}
			text, open = "", false
		}
	}
	return out
}

func lookUp(values map[string]any, path []string) (any, bool) {
	value, ok := values[path[0]]
	if !ok || len(path) == 1 {
		return value, ok
	}
	section, ok := value.(map[string]any)
	if !ok {
		return nil, false
	}
	return lookUp(section, path[1:])
}

// show is a default as one would write it in a line; images as one text.
func show(value any) string {
	if image, ok := value.(map[string]any); ok {
		if repository, ok := image["repository"].(string); ok {
			if tag, ok := image["tag"].(string); ok && tag != "" {
				repository += ":" + tag
			}
			return "`" + repository + "`"
		}
	}
	if s, ok := value.(string); ok && strings.Contains(s, "\n") {
		return "see `values.yaml`"
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return "`" + strings.ReplaceAll(string(text), "|", `\|`) + "`"
}
