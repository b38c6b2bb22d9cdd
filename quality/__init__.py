"""What is known of a draft's quality, and the plug-ins that judge and redo drafts."""
