package v1beta1

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Ports of the daemons.
const (
	PortSlurmctld  = 6817
	PortSlurmd     = 6818
	PortSlurmdbd   = 6819
	PortSlurmrestd = 6820
	PortSsh        = 22
)

// ClusterName is Slurm's name of the cluster.
func (c *Controller) ClusterName() string {
	if c.Spec.ClusterName != "" {
		return c.Spec.ClusterName
	}
	return c.Namespace + "_" + c.Name
}

// WorkloadName is the name of slurmctld's StatefulSet.
func (c *Controller) WorkloadName() string { return c.Name + "-controller" }

// ServiceName is the name of the Service that clients of slurmctld use.
func (c *Controller) ServiceName() string { return c.Name + "-controller" }

// InternalServiceName is the name of the headless Service of the slurmctld pods.
func (c *Controller) InternalServiceName() string { return c.Name + "-controller-internal" }

// ConfigName is the name of the ConfigMap with slurm.conf.
func (c *Controller) ConfigName() string { return c.Name + "-config" }

// PodName is the name of a slurmctld pod; 0 is the primary controller.
func (c *Controller) PodName(ordinal int) string {
	return fmt.Sprintf("%s-%d", c.WorkloadName(), ordinal)
}

// WorkersServiceName is the name of the headless Service of all workers.
func (c *Controller) WorkersServiceName() string { return "slurm-workers-" + c.Name }

// WorkersBudgetName is the name of the PodDisruptionBudget of busy workers.
func (c *Controller) WorkersBudgetName() string { return "slurm-workers-pdb-" + c.Name }

// Address is the host and the port at which daemons and clients reach slurmctld.
func (c *Controller) Address() (host string, port int) {
	if c.Spec.External && c.Spec.ExternalConfig != nil {
		return c.Spec.ExternalConfig.Host, c.Spec.ExternalConfig.Port
	}
	return c.ServiceName() + "." + c.Namespace, portOr(c.Spec.Service.Port, PortSlurmctld)
}

// Replicas is the number of slurmctld pods.
func (c *Controller) Replicas() int32 {
	if c.Spec.External {
		return 0
	}
	if c.Spec.HA == nil || !c.Spec.HA.Enabled {
		return 1
	}
	if c.Spec.HA.Backups == nil {
		return 2
	}
	return 1 + *c.Spec.HA.Backups
}

// JwtKey selects the key of auth/jwt; nil for none.
func (c *Controller) JwtKey() *corev1.SecretKeySelector {
	return firstKey(c.Spec.JwtKeyRef, c.Spec.JwtHs256KeyRef)
}

// WorkloadName is the name of slurmdbd's StatefulSet, Service and Secret.
func (a *Accounting) WorkloadName() string { return a.Name + "-accounting" }

// Address is the host and the port at which slurmctld reaches slurmdbd.
func (a *Accounting) Address() (host string, port int) {
	if a.Spec.External && a.Spec.ExternalConfig != nil {
		return a.Spec.ExternalConfig.Host, a.Spec.ExternalConfig.Port
	}
	return a.WorkloadName(), portOr(a.Spec.Service.Port, PortSlurmdbd)
}

// JwtKey selects the key of auth/jwt; nil for none.
func (a *Accounting) JwtKey() *corev1.SecretKeySelector {
	return firstKey(a.Spec.JwtKeyRef, a.Spec.JwtHs256KeyRef)
}

// WorkloadName is the name of slurmrestd's Deployment and Service.
func (r *RestApi) WorkloadName() string { return r.Name + "-restapi" }

// URL is where clients within Kubernetes reach slurmrestd.
func (r *RestApi) URL() string {
	return fmt.Sprintf("http://%s.%s:%d", r.WorkloadName(), r.Namespace, portOr(r.Spec.Service.Port, PortSlurmrestd))
}

// JwtKey selects the key that signs the token; nil for none.
func (t *Token) JwtKey() *corev1.SecretKeySelector {
	return firstKey(t.Spec.JwtKeyRef, t.Spec.JwtHs256KeyRef)
}

// WorkloadName is the name of the login pods' Deployment and Service.
func (l *LoginSet) WorkloadName() string { return l.Name }

// HostKeysName is the name of the Secret with the ssh host keys.
func (l *LoginSet) HostKeysName() string { return l.Name + "-ssh-host-keys" }

// SshConfigName is the name of the ConfigMap with sshd_config and root's authorized_keys.
func (l *LoginSet) SshConfigName() string { return l.Name + "-ssh-config" }

// SshConfigName is the name of the ConfigMap with the workers' sshd_config.
func (n *NodeSet) SshConfigName() string { return n.Name + "-ssh-config" }

func firstKey(keys ...*corev1.SecretKeySelector) *corev1.SecretKeySelector {
	for _, k := range keys {
		if k != nil {
			return k
		}
	}
	return nil
}

func portOr(port, otherwise int) int {
	if port != 0 {
		return port
	}
	return otherwise
}

// SlurmName is the NodeSet's name in slurm.conf, and the feature of its nodes: the pods'
// host name prefix where the template has one, else the NodeSet's own name.
func (n *NodeSet) SlurmName() (string, error) {
	prefix, err := n.HostnamePrefix()
	if err != nil || prefix == "" {
		return n.Name, err
	}
	return strings.Trim(prefix, "-"), nil
}

// HostnamePrefix is template.spec.hostname: what comes before the ordinal in the pods'
// host names; empty where these are the pods' names.
func (n *NodeSet) HostnamePrefix() (string, error) {
	var spec struct {
		Hostname string `json:"hostname"`
	}
	if err := n.Spec.Template.PodSpec.Decode(&spec); err != nil {
		return "", fmt.Errorf("spec.template.spec.hostname: %w", err)
	}
	return spec.Hostname, nil
}

// KeysName is the name of the Secret with the keys of auth/slurm that the cluster's pods use.
func (c *Controller) KeysName() string { return c.Name + KeysSuffix }

// KeysSuffix ends the name of each Secret with the keys of a cluster.
const KeysSuffix = "-slurm-keys"
