package hostlist

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Compress returns a short expression for a set of names: each once, sorted by
// prefix and number. Expand of the result gives that sorted set. Only the
// number at a name's end goes into a bracket, since all of Slurm's versions read that.
func Compress(names []string) string {
	hosts := make([]host, len(names))
	for i, n := range names {
		hosts[i] = split(n)
	}
	slices.SortFunc(hosts, host.compare)
	hosts = slices.Compact(hosts)

	var b strings.Builder
	for i := 0; i < len(hosts); {
		j := i + 1
		for j < len(hosts) && hosts[j].prefix == hosts[i].prefix && hosts[j].digits != "" && hosts[i].digits != "" {
			j++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		writeGroup(&b, hosts[i:j])
		i = j
	}
	return b.String()
}

// host is a name, cut before the number at its end.
type host struct {
	prefix, digits string
	n              uint64
}

func split(name string) host {
	i := len(name)
	for i > 0 && len(name)-i < maxDigits && name[i-1] >= '0' && name[i-1] <= '9' {
		i--
	}
	n, _ := strconv.ParseUint(name[i:], 10, 64)
	return host{prefix: name[:i], digits: name[i:], n: n}
}

func (h host) compare(o host) int {
	return cmp.Or(strings.Compare(h.prefix, o.prefix), cmp.Compare(h.n, o.n), cmp.Compare(len(h.digits), len(o.digits)))
}

// writeGroup prints names of one prefix, all with a number or a single one without.
func writeGroup(b *strings.Builder, hosts []host) {
	b.WriteString(hosts[0].prefix)
	if len(hosts) == 1 {
		b.WriteString(hosts[0].digits)
		return
	}
	b.WriteByte('[')
	for i := 0; i < len(hosts); {
		j := i
		for j+1 < len(hosts) && hosts[j+1].follows(hosts[j], hosts[i].width()) {
			j++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(hosts[i].digits)
		if j > i {
			b.WriteByte('-')
			b.WriteString(hosts[j].digits)
		}
		i = j + 1
	}
	b.WriteByte(']')
}

// width is what the number's leading zeros pad it to, 0 without any.
func (h host) width() int {
	if h.digits != "" && h.digits[0] == '0' {
		return len(h.digits)
	}
	return 0
}

// follows tells whether h comes next after before in a range that began with a number padded to width.
func (h host) follows(before host, width int) bool {
	return h.n == before.n+1 && h.digits[0] != '0' && len(h.digits) >= width ||
		h.n == before.n+1 && h.digits[0] == '0' && len(h.digits) == width
}
