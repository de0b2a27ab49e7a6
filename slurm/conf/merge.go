package conf

import (
	"maps"
	"slices"
	"strings"
)

// mergedKeys are the options that the operator and a user's extra lines share. For all
// others Slurm's own rule holds: the last line wins.
func mergedKeys() []string {
	return []string{"AuthAltParameters", "AuthInfo", "PrologFlags", "SlurmctldParameters"}
}

// mergeOptions writes, for each shared key that extra sets, one more line with the union of
// both sides, sorted. A sub-key that ours has keeps our value: the cluster doesn't work without.
func mergeOptions(d *Document, ours map[string]string, extra string) {
	theirs := lastValues(extra)
	var lines []Pair
	for _, key := range mergedKeys() {
		value, ok := theirs[strings.ToLower(key)]
		if !ok || ours[key] == "" || strings.ContainsAny(value, " \t") {
			continue
		}
		lines = append(lines, Pair{key, union(ours[key], value)})
	}
	if len(lines) == 0 {
		return
	}
	d.Section("MERGED CONFIG")
	for _, l := range lines {
		d.Set(l.Key, l.Value)
	}
}

// union joins two comma lists of options, each an option or option=value.
func union(ours, theirs string) string {
	all := map[string]string{}
	for _, list := range []string{theirs, ours} {
		for item := range strings.SplitSeq(list, ",") {
			item = strings.TrimSpace(item)
			if item == "" {
				continue
			}
			name, value, ok := strings.Cut(item, "=")
			name = strings.ToLower(name)
			if ok {
				all[name] = name + "=" + value
			} else {
				all[name] = name
			}
		}
	}
	return strings.Join(slices.Sorted(maps.Values(all)), ",")
}

// lastValues reads lines as Slurm does and returns the last value of every key, by lower-case key.
func lastValues(text string) map[string]string {
	values := map[string]string{}
	for _, line := range logicalLines(text) {
		words, err := splitWords(line)
		if err != nil {
			continue
		}
		for _, w := range words {
			if key, value, ok := strings.Cut(w, "="); ok {
				values[strings.ToLower(key)] = strings.Trim(value, `"`)
			}
		}
	}
	return values
}

// logicalLines joins continued lines, into the last of them, and removes comments. There are
// as many lines as in text.
func logicalLines(text string) []string {
	var lines []string
	var line strings.Builder
	for physical := range strings.SplitSeq(text, "\n") {
		physical = withoutComment(strings.TrimRight(physical, "\r"))
		if continues(physical) {
			line.WriteString(strings.TrimSuffix(physical, `\`))
			lines = append(lines, "")
			continue
		}
		line.WriteString(physical)
		lines = append(lines, line.String())
		line.Reset()
	}
	return append(lines, line.String())
}

func withoutComment(line string) string {
	escaped := false
	for i, r := range line {
		switch {
		case escaped:
			escaped = false
		case r == '\\':
			escaped = true
		case r == '#':
			return line[:i]
		}
	}
	return line
}
