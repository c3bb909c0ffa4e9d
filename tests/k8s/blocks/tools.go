//go:build tools

package main

// The sidecar, so that go.mod has all that it needs.
import _ "github.com/kubernetes-csi/external-snapshot-metadata/cmd/csi-snapshot-metadata"
