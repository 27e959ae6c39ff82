// Package registry is an image registry for tests that requires a user name and a password, like a private registry. It keeps layers in a
// folder and everything else in memory, so it is empty after a restart. It uses plain HTTP and is not meant for production.
package registry
