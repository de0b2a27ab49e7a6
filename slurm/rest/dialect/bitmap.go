package dialect

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// Bitmap returns the numbers of the bits that are set in a hexadecimal bitmap
// such as "0x0F", ascending.
func Bitmap(s string) ([]int, error) {
	hex := strings.TrimPrefix(strings.TrimPrefix(s, "0x"), "0X")
	var set []int
	for end := len(hex); end > 0; end -= 16 {
		chunk := hex[max(0, end-16):end]
		word, err := strconv.ParseUint(chunk, 16, 64)
		if err != nil {
			return nil, fmt.Errorf("bitmap %q: %q is not hexadecimal", s, chunk)
		}
		base := (len(hex) - end) * 4
		for ; word != 0; word &= word - 1 {
			set = append(set, base+bits.TrailingZeros64(word))
		}
	}
	return set, nil
}
