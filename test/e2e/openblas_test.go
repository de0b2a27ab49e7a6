package e2e

import (
	"fmt"
	"os"
	"path/filepath"
)

// buildOpenBLAS builds a program with Debian's OpenBLAS, which it takes along: out of packages, so that none needs to be installed.
func buildOpenBLAS(dir string) (string, error) {
	libraries, unpacked := filepath.Join(dir, "so"), filepath.Join(dir, "packages")
	defer os.RemoveAll(unpacked)
	if err := os.MkdirAll(unpacked, 0o755); err != nil {
		return "", err
	}
	for name, library := range map[string]string{"libopenblas0-pthread": "libopenblas.so.0", "libgfortran5": "libgfortran.so.5", "libquadmath0": "libquadmath.so.0"} {
		if _, err := runIn(unpacked, "apt-get", "download", name); err != nil {
			return "", err
		}
		if _, err := runIn(unpacked, "sh", "-c", "dpkg-deb --extract "+name+"_*.deb ."); err != nil {
			return "", err
		}
		// On x86 and Arm it is below a folder of the architecture, and OpenBLAS below another of its variant.
		found, err := filepath.Glob(filepath.Join(unpacked, "usr/lib/*", library))
		if err == nil && len(found) == 0 {
			found, err = filepath.Glob(filepath.Join(unpacked, "usr/lib/*/*", library))
		}
		if err != nil || len(found) != 1 {
			return "", fmt.Errorf("the package %s has %q for %s: %w", name, found, library, err)
		}
		if err := copyFile(filepath.Join(libraries, library), found[0]); err != nil {
			return "", err
		}
	}
	_, err := runIn("testdata/counts", "gcc", "-O1", "-o", filepath.Join(dir, "counts"), "openblas.c", "-L"+libraries, "-l:libopenblas.so.0", "-Wl,--allow-shlib-undefined")
	return "LD_LIBRARY_PATH=$PWD/so ./counts", err
}
