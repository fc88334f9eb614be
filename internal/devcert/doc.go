// Package devcert makes certificate authorities and certificates for the servers that tests start: good ones, and expired or misnamed ones.
package devcert
