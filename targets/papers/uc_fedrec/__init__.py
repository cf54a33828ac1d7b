"""UC-FedRec, WSDM 2024: filters against attribute inference, by consent of each user."""
