package conf

import (
	"errors"
	"fmt"
	"strings"
)

// ParsePairs reads Key=Value words that are separated by blanks. A value may be quoted
// with double quotes to hold blanks.
func ParsePairs(text string) ([]Pair, error) {
	if err := checkLine(text); err != nil {
		return nil, err
	}
	words, err := splitWords(text)
	if err != nil {
		return nil, err
	}
	var pairs []Pair
	for _, w := range words {
		key, value, ok := strings.Cut(w, "=")
		if !ok || !keyPattern.MatchString(key) {
			return nil, fmt.Errorf("%q is not of the form Key=Value", abbreviate(w))
		}
		if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
			value = value[1 : len(value)-1]
		}
		if _, err := quote(value); err != nil {
			return nil, fmt.Errorf("%s: value %q: %w", key, abbreviate(value), err)
		}
		pairs = append(pairs, Pair{key, value})
	}
	return pairs, nil
}

// FormatPairs is the inverse of ParsePairs.
func FormatPairs(pairs []Pair) (string, error) {
	var d Document
	d.Line(pairs...)
	text, err := d.Text()
	return strings.TrimSuffix(text, "\n"), err
}

func splitWords(text string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord, quoted := false, false
	for _, r := range text {
		switch {
		case r == '"':
			quoted, inWord = !quoted, true
			word.WriteRune(r)
		case (r == ' ' || r == '\t') && !quoted:
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		default:
			inWord = true
			word.WriteRune(r)
		}
	}
	if quoted {
		return nil, errors.New("a double quote is not closed")
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}
