package dialect

import (
	"bytes"
	"encoding/json"
)

// Strings is a list of strings. Some of Slurm's lists come as one text with commas.
type Strings []string

// UnmarshalJSON accepts an array, a text and null. Commas within brackets don't
// separate: "a[1,3],b" is two strings.
func (s *Strings) UnmarshalJSON(b []byte) error {
	*s = nil
	b = bytes.TrimSpace(b)
	if len(b) == 0 || b[0] != '"' {
		return json.Unmarshal(b, (*[]string)(s))
	}
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	*s = Split(text)
	return nil
}

// Split cuts a text at its commas. Those within brackets don't separate.
func Split(text string) []string {
	var out []string
	depth, start := 0, 0
	for i := 0; i <= len(text); i++ {
		switch {
		case i == len(text) || text[i] == ',' && depth == 0:
			if i > start {
				out = append(out, text[start:i])
			}
			start = i + 1
		case text[i] == '[':
			depth++
		case text[i] == ']':
			depth--
		}
	}
	return out
}
