//go:build tools

// Package cosi names the programs of COSI in the cluster tier, so that go.mod has all that they need.
package cosi

import (
	// The source of the package that the programs lack: see scripts/lib/cosi-programs.
	_ "sigs.k8s.io/container-object-storage-interface-api/controller"
	_ "sigs.k8s.io/container-object-storage-interface/controller/cmd"
	_ "sigs.k8s.io/container-object-storage-interface/sidecar/cmd"
)
