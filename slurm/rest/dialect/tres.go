package dialect

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/slinky-hpc/slinky/slurm/tres"
)

// TRES is a TRES expression such as "cpu=4,gres/gpu=2", which the accounting
// database's answers write as a list of objects.
type TRES string

type tresJSON struct {
	Type  string `json:"type"`
	Name  string `json:"name"`
	Count Number `json:"count"`
}

// UnmarshalJSON reads the list.
func (t *TRES) UnmarshalJSON(b []byte) error {
	var list []tresJSON
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	items := make([]string, 0, len(list))
	for _, x := range list {
		name := x.Type
		if x.Name != "" {
			name += "/" + x.Name
		}
		items = append(items, fmt.Sprintf("%s=%d", name, x.Count.Value))
	}
	*t = TRES(strings.Join(items, ","))
	return nil
}

// MarshalJSON writes the list. It fails if the text is no TRES expression.
func (t TRES) MarshalJSON() ([]byte, error) {
	items, err := tres.Parse(string(t))
	if err != nil {
		return nil, err
	}
	list := make([]map[string]any, 0, len(items))
	for _, it := range items {
		name := it.Name
		if it.Model != "" {
			name += ":" + it.Model
		}
		list = append(list, map[string]any{"type": it.Type, "name": name, "count": it.Count})
	}
	return json.Marshal(list)
}
