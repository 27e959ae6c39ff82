package charts

import (
	_ "embed"

	"sigs.k8s.io/yaml"
)

//go:embed member/files/former.yaml
var former []byte

// Former returns the values of OpenKruise's chart that the member's chart doesn't have: a map from the value's path to its replacement.
func Former() (map[string]string, error) {
	out := map[string]string{}
	err := yaml.Unmarshal(former, &out)
	return out, err
}
