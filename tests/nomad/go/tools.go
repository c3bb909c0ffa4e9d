//go:build tools

// Package nomad names the program of the Nomad tier, so that go.mod has all that it needs.
package nomad

import _ "github.com/hashicorp/nomad"
