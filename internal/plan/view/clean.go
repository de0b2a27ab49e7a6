package view

import (
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"
)

// longest bounds a text that is shown, in bytes: names in both worlds are shorter, and reasons are sentences.
const longest = 1024

// Text returns a text as it may be shown on a terminal or a page: in one line, without
// characters that steer a terminal, hide themselves or turn the direction of writing.
func Text(s string) string {
	s = strip(s)
	if len(s) <= longest {
		return s
	}
	end := longest
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}

func strip(s string) string {
	if clean(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n', r == '\t', r == '\r':
			b.WriteByte(' ')
		case r == utf8.RuneError, !allowed(r):
			b.WriteRune(replacement)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// replacement stands for a character that isn't shown.
const replacement = '·'

func clean(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f {
			return c >= 0x80 && cleanRunes(s)
		}
	}
	return true
}

func cleanRunes(s string) bool {
	for _, r := range s {
		if r == utf8.RuneError || !allowed(r) {
			return false
		}
	}
	return true
}

// allowed leaves out control characters (Cc), formats such as bidirectional overrides (Cf),
// private use, surrogates, and separators of lines.
func allowed(r rune) bool { return unicode.IsPrint(r) }

// Clean takes out of every text in what v points to what may not be shown (see Text), and
// leaves it as long as it is. It also reaches what v shares with others: slices and maps.
func Clean(v any) { walk(reflect.ValueOf(v)) }

func walk(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			walk(v.Elem())
		}
	case reflect.Struct:
		if t := v.Type(); t == reflect.TypeFor[Operator]() || t == reflect.TypeFor[Groups]() {
			return // planners compare these texts; what they make of them is cleaned
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				walk(v.Field(i))
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		for i := range v.Len() {
			walk(v.Index(i))
		}
	case reflect.Map:
		walkMap(v)
	case reflect.String:
		if v.CanSet() {
			if s := v.String(); !clean(s) {
				v.SetString(strip(s))
			}
		}
	}
}

func walkMap(v reflect.Value) {
	for _, key := range v.MapKeys() {
		element := reflect.New(v.Type().Elem()).Elem()
		element.Set(v.MapIndex(key))
		walk(element)
		cleanKey := reflect.New(key.Type()).Elem()
		cleanKey.Set(key)
		walk(cleanKey)
		if !cleanKey.Equal(key) {
			v.SetMapIndex(key, reflect.Value{})
		}
		v.SetMapIndex(cleanKey, element)
	}
}
