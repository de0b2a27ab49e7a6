package main

import "strings"

// Published operators hand options to a shell in the image, so their texts carry quotes and variables:
//
//	--conf  'Features=gpu Topology='"$SLINKY_TOPOLOGY"
//
// expandWord does to one container argument what that shell did to quotes and variables, and nothing else of what a shell does:
// no commands, no patterns, no splitting. An argument without quotes, backslashes or dollars stays what it is.

// expandWord removes quotes from one word and puts in the values of $NAME and ${NAME} outside single quotes. A text whose quotes
// don't match is not meant for a shell and stays as it is.
func expandWord(word string, getenv func(string) string) string {
	words, ok := scan(word, getenv, false)
	if !ok || len(words) == 0 {
		return word
	}
	return words[0]
}

// splitWords splits the text of an options variable at spaces outside quotes, and expands each word.
func splitWords(text string, getenv func(string) string) []string {
	words, ok := scan(text, getenv, true)
	if !ok {
		return strings.Fields(text)
	}
	return words
}

// scan reads words; without split, everything is one word. It reports whether all quotes match.
func scan(text string, getenv func(string) string, split bool) ([]string, bool) {
	var words []string
	var word strings.Builder
	inWord := !split
	quote := byte(0)
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quote == 0 && split && strings.IndexByte(" \t\n", c) >= 0:
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
			continue
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case c == quote:
			quote = 0
		case c == '\\' && quote != '\'' && i+1 < len(text) && escapes(text[i+1], quote):
			i++
			word.WriteByte(text[i])
		case c == '$' && quote != '\'':
			name, length := variable(text[i:])
			if length == 0 {
				word.WriteByte(c)
				break
			}
			word.WriteString(getenv(name))
			i += length - 1
		default:
			word.WriteByte(c)
		}
		inWord = true
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, quote == 0
}

// escapes tells whether a backslash before c is removed; quote is the open quote or 0.
func escapes(c, quote byte) bool {
	if quote == '"' {
		return strings.IndexByte("\"\\$`", c) >= 0
	}
	return true
}

// variable reads $NAME or ${NAME} at the start of text: its name, and how long it is with its signs.
func variable(text string) (name string, length int) {
	start, end := 1, 1
	braces := len(text) > 1 && text[1] == '{'
	if braces {
		start, end = 2, 2
	}
	for end < len(text) && isNameByte(text[end], end == start) {
		end++
	}
	if end == start {
		return "", 0
	}
	name, length = text[start:end], end
	if braces {
		if end == len(text) || text[end] != '}' {
			return "", 0
		}
		length++
	}
	return name, length
}

func isNameByte(c byte, first bool) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || !first && c >= '0' && c <= '9'
}
