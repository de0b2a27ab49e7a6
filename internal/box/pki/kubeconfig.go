package pki

import (
	"encoding/base64"
	"fmt"
	"os"

	"sigs.k8s.io/yaml"

	"github.com/slinky-hpc/slinky/internal/atomicfile"
)

// WriteKubeconfig writes a kubeconfig for the identity that was issued under name.
func (ca *CA) WriteKubeconfig(path, name, cluster, server string) error {
	data := map[string]string{}
	for key, file := range map[string]string{"ca": "ca.crt", "cert": name + ".crt", "key": name + ".key"} {
		b, err := os.ReadFile(ca.File(file))
		if err != nil {
			return fmt.Errorf("write kubeconfig of %s: %w", name, err)
		}
		data[key] = base64.StdEncoding.EncodeToString(b)
	}
	text, err := yaml.Marshal(map[string]any{
		"apiVersion":      "v1",
		"kind":            "Config",
		"current-context": cluster,
		"clusters": []any{map[string]any{"name": cluster, "cluster": map[string]any{
			"server": server, "certificate-authority-data": data["ca"]}}},
		"users": []any{map[string]any{"name": name, "user": map[string]any{
			"client-certificate-data": data["cert"], "client-key-data": data["key"]}}},
		"contexts": []any{map[string]any{"name": cluster, "context": map[string]any{
			"cluster": cluster, "user": name}}},
	})
	if err != nil {
		return fmt.Errorf("write kubeconfig of %s: %w", name, err)
	}
	if err := atomicfile.Replace(path, text, 0o600, atomicfile.Cached); err != nil {
		return fmt.Errorf("write kubeconfig of %s: %w", name, err)
	}
	return nil
}
