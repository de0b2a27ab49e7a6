package tres

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// suffix cuts the letter of a power of 1024 from a count.
func suffix(s string) (number string, power int) {
	if n := len(s); n > 0 && s[n-1] > '9' {
		if i := strings.IndexByte("KMGTP", s[n-1]&^0x20); i >= 0 {
			return s[:n-1], i + 1
		}
	}
	return s, 0
}

// integer reads a count such as 16 or 4K.
func integer(s string) (uint64, error) {
	digits, power := suffix(s)
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a count", s)
	}
	return scale(n, 10*power)
}

// mebibytes reads an amount of memory such as 4000, 4000M or 62.50G. A part of a MiB counts as one.
func mebibytes(s string) (uint64, error) {
	digits, power := suffix(s)
	shift := 0
	if power > 0 {
		shift = 10 * (power - 2)
	}
	if n, err := strconv.ParseUint(digits, 10, 64); err == nil {
		return scale(n, shift)
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil || strings.Trim(digits, "0123456789.") != "" || power == 0 {
		return 0, fmt.Errorf("%q is not an amount of memory", s)
	}
	if f = math.Ceil(math.Ldexp(f, shift)); f >= 1<<63 {
		return 0, fmt.Errorf("%q is too large", s)
	}
	return uint64(f), nil
}

func scale(n uint64, shift int) (uint64, error) {
	if shift < 0 {
		whole := n >> -shift
		if whole<<-shift != n {
			whole++
		}
		return whole, nil
	}
	if n<<shift>>shift != n {
		return 0, fmt.Errorf("%d is too large", n)
	}
	return n << shift, nil
}

// formatMebibytes prints memory as Slurm does: in the largest unit of which it
// is a whole or a half number.
func formatMebibytes(n uint64) string {
	unit := 0
	for n >= 1024 && n%1024 == 0 && unit < 3 {
		n, unit = n/1024, unit+1
	}
	if n > 1024 && n%512 == 0 && unit < 3 {
		return fmt.Sprintf("%d.50%c", n/1024, "MGTP"[unit+1])
	}
	return strconv.FormatUint(n, 10) + "MGTP"[unit:unit+1]
}
