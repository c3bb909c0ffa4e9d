//go:build tools

// Package gateway names the program of the S3 gateway, so that go.mod has all that it needs.
package gateway

import _ "github.com/versity/versitygw/cmd/versitygw"
