package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of this package's kinds.
var GroupVersion = schema.GroupVersion{Group: "slinky.slurm.net", Version: "v1beta1"}

// Kinds of this package.
const (
	KindController = "Controller"
	KindAccounting = "Accounting"
	KindRestApi    = "RestApi"
	KindNodeSet    = "NodeSet"
	KindLoginSet   = "LoginSet"
	KindToken      = "Token"
)

// AddToScheme makes this package's kinds known to scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&Controller{}, &ControllerList{},
		&Accounting{}, &AccountingList{},
		&RestApi{}, &RestApiList{},
		&NodeSet{}, &NodeSetList{},
		&LoginSet{}, &LoginSetList{},
		&Token{}, &TokenList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
