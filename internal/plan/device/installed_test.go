package device_test

import (
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/internal/plan/device"
)

func TestInstalled(t *testing.T) {
	class := func(name, expression string) resourcev1.DeviceClass {
		c := resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if expression != "" {
			c.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}}
		}
		return c
	}
	for name, c := range map[string]struct {
		classes []resourcev1.DeviceClass
		want    bool
	}{
		"none":            {nil, false},
		"another's":       {[]resourcev1.DeviceClass{class("gpu.example.com", `device.driver == "gpu.example.com"`), {}}, false},
		"of its name":     {[]resourcev1.DeviceClass{class("dra.cpu", "")}, true},
		"of its selector": {[]resourcev1.DeviceClass{class("cores", `device.driver == "dra.cpu"`)}, true},
	} {
		if got := device.Installed("dra.cpu", c.classes); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
