package conf

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// Pair is one Key=Value of a line.
type Pair struct{ Key, Value string }

// Document collects the lines of a file. The zero Document is empty. Errors are kept
// until Text, so that all of them are reported at once.
type Document struct {
	lines []string
	errs  []error
}

// Section writes a banner above the lines that follow.
func (d *Document) Section(name string) {
	if err := checkText(name); err != nil {
		d.fail("section", name, err)
		return
	}
	d.lines = append(d.lines, "#", "### "+name+" ###")
}

// Set writes the line key=value. An empty value writes nothing.
func (d *Document) Set(key, value string) {
	if value != "" {
		d.Line(Pair{key, value})
	}
}

// Line writes pairs on one line.
func (d *Document) Line(pairs ...Pair) {
	words := make([]string, 0, len(pairs))
	for _, p := range pairs {
		if !keyPattern.MatchString(p.Key) {
			d.fail("key", p.Key, errors.New("a key is a letter followed by letters, digits and underscores"))
			return
		}
		v, err := quote(p.Value)
		if err != nil {
			d.fail(p.Key, p.Value, err)
			return
		}
		words = append(words, p.Key+"="+v)
	}
	d.lines = append(d.lines, strings.Join(words, " "))
}

// Verbatim writes whole lines that a user owns, named field in errors. They may use all
// of Slurm's syntax, but can't reach past their own end.
func (d *Document) Verbatim(field, text string) {
	text = strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	if text == "" {
		return
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if err := checkLine(line); err != nil {
			d.errs = append(d.errs, fmt.Errorf("%s, line %d: %w", field, i+1, err))
			return
		}
	}
	if continues(lines[len(lines)-1]) {
		d.errs = append(d.errs, fmt.Errorf("%s: the last line ends with a backslash and would swallow the line after it: remove the backslash", field))
		return
	}
	d.lines = append(d.lines, lines...)
}

// Text returns the file, or what is wrong with it.
func (d *Document) Text() (string, error) {
	if len(d.errs) > 0 {
		return "", errors.Join(d.errs...)
	}
	if len(d.lines) == 0 {
		return "", nil
	}
	return strings.Join(d.lines, "\n") + "\n", nil
}

func (d *Document) fail(key, value string, err error) {
	d.errs = append(d.errs, fmt.Errorf("%s: value %q: %w", key, abbreviate(value), err))
}

var keyPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)

// quote returns value as Slurm's parser reads it back: '#' would begin a comment, '\'
// would escape, a blank would end the value.
func quote(value string) (string, error) {
	if value == "" {
		return "", errors.New("is empty")
	}
	if err := checkText(value); err != nil {
		return "", err
	}
	if strings.Contains(value, `"`) {
		return "", errors.New("has a double quote, which Slurm can't read")
	}
	blank := strings.ContainsFunc(value, unicode.IsSpace)
	value = strings.NewReplacer(`\`, `\\`, `#`, `\#`).Replace(value)
	if blank {
		value = `"` + value + `"`
	}
	return value, nil
}

// checkText refuses what can end or hide a line.
func checkText(s string) error {
	if strings.ContainsRune(s, '\t') {
		return errors.New("has a tab")
	}
	return checkLine(s)
}

// checkLine is checkText for lines that may have tabs.
func checkLine(s string) error {
	for _, r := range s {
		switch {
		case r == '\t':
		case r == '\n', r == '\r', r == '\u0085', r == '\u2028', r == '\u2029':
			return errors.New("has a line break")
		case r == unicode.ReplacementChar:
			return errors.New("is not valid UTF-8")
		case unicode.IsControl(r):
			return fmt.Errorf("has the control character %U", r)
		}
	}
	return nil
}

// continues tells whether Slurm joins the line after this one to it.
func continues(line string) bool {
	n := len(line) - len(strings.TrimRight(line, `\`))
	return n%2 == 1
}

func abbreviate(s string) string {
	if r := []rune(s); len(r) > 40 {
		return string(r[:40]) + "..."
	}
	return s
}
