package device

import "strconv"

// long returns a string attribute that may be in parts: the name with a number from 0
// on, since the API takes no more than 64 characters at once.
func (a attributes) long(name string) string {
	whole := a.text(name)
	if whole != "" {
		return whole
	}
	for i := 0; ; i++ {
		part := a.text(name + strconv.Itoa(i))
		if part == "" {
			return whole
		}
		whole += part
	}
}
