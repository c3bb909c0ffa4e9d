"""What the cluster tests are made of: a control plane, nodes in guests, images, and a client of the API."""
