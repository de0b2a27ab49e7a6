package observe

import (
	"strings"
	"testing"
)

// What can't be understood stops a namespace's jobs, so the sentence is for the administrator: it names no type of this program.
func TestParseEntrySaysWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"physics":                   "expected the keys allowed and default, with names and values, and not: string",
		"[allowed]":                 "expected the keys allowed and default, with names and values, and not: array",
		"allowed: physics":          "allowed is a string; expected names with values",
		"allow: {qos: low}":         `unknown field "allow"`,
		"allowed: {qos: [low]}":     "a value is neither a text nor a number",
		"allowed: {qos: a, qos: b}": `"qos" already set`,
	} {
		_, err := ParseEntry(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "scalar") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	e, err := ParseEntry("allowed: {qos: low, timelimit: 60}\ndefault: {exclusive: false}")
	if err != nil || e.Allowed["timelimit"] != "60" || e.Default["exclusive"] != "false" {
		t.Errorf("got %+v, %v", e, err)
	}
}
