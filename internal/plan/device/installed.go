package device

import (
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
)

// Installed tells whether some DeviceClass is for a driver's devices: by its name, as
// published drivers have it, or by its selectors. A driver that is updated keeps its
// class; one that is uninstalled takes it along.
func Installed(driver string, classes []resourcev1.DeviceClass) bool {
	return slices.ContainsFunc(classes, func(c resourcev1.DeviceClass) bool {
		return c.Name == driver || slices.ContainsFunc(c.Spec.Selectors, func(s resourcev1.DeviceSelector) bool {
			return s.CEL != nil && strings.Contains(s.CEL.Expression, driver)
		})
	})
}
