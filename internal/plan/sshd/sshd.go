// Package sshd writes the configuration of the ssh servers in login and worker pods.
package sshd

import "strings"

// Files of the ssh server, as keys of ConfigMaps and Secrets and in the folder Dir.
const (
	Dir            = "/etc/ssh"
	FileConfig     = "sshd_config"
	FileAuthorized = "authorized_keys"
	FileSssd       = "sssd.conf"
	PathSssd       = "/etc/sssd/sssd.conf"

	// DirRootKeys is a whole volume, so that kubelet brings a change of its file into running pods.
	DirRootKeys = "/etc/ssh/authorized_keys.d"
)

// LoginConfig is sshd_config of login pods. sshd takes the first value that it reads of a keyword, so extra can't change
// the lines above it, and can set everything else.
func LoginConfig(extra string) string {
	return lines(
		"Include /etc/ssh/sshd_config.d/*.conf",
		"UsePAM yes",
		"X11Forwarding yes",
		"Subsystem sftp internal-sftp",
	) + block(extra) + lines(
		// sshd refuses a file of authorized keys in a folder that others may write to, and the folders of Kubernetes'
		// volumes are such; it asks a command without that.
		"Match User root",
		"    AuthorizedKeysCommand /usr/bin/cat "+DirRootKeys+"/"+FileAuthorized,
		"    AuthorizedKeysCommandUser root",
	)
}

// WorkerConfig is sshd_config of workers.
func WorkerConfig(extra string) string {
	return lines(
		"Include /etc/ssh/sshd_config.d/*.conf",
		"UsePAM yes",
		"Subsystem sftp internal-sftp",
		"AuthenticationMethods publickey password",
	) + block(extra)
}

// AuthorizedKeys is root's authorized_keys.
func AuthorizedKeys(keys string) string {
	return lines("# Made by the operator from rootSshAuthorizedKeys.") + block(keys)
}

func lines(all ...string) string { return strings.Join(all, "\n") + "\n" }

// block ends a user's text with a line break.
func block(text string) string {
	if text = strings.TrimRight(text, "\n"); text == "" {
		return ""
	}
	return text + "\n"
}
