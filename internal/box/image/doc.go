// Package image makes the box's container images, without a registry and without a daemon: Debian-based ones from the Dockerfiles
// in images/ with buildah, and images of static binaries by itself. Every image is an OCI layout folder in the cache, keyed by
// everything that it is made of; layers are not compressed, since they never travel further than this machine's disk.
package image
